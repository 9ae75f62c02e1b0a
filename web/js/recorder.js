const LOOK_MS = 1000;
const ENDS = {
  full: "The recording has reached its greatest size.",
  failed: "The server could not write the recording any more.",
};
const GONE = { state: "stopped", reason: null, seconds: 0, files: [] };

/** The button that records the session, and the links to what was recorded. */
export class Recorder {
  #find;
  #session;
  #place = null;
  #timer = null;
  #say;

  /**
   * @param {(id: string) => HTMLElement} find looks up an element of the page
   * @param {import("./session.js").Session} session
   * @param {(text: string) => void} say tells a person something
   */
  constructor(find, session, say) {
    this.#find = find;
    this.#session = session;
    this.#say = say;
  }

  /** Whether the server keeps recordings. @param {object} demo the answer of `GET /api/demo` */
  static isFor(demo) {
    return demo.recording === true;
  }

  /** Shows the button, and follows the session. */
  listen() {
    this.#find("record").hidden = false;
    this.#session.addEventListener("state", () => this.#followSession());
  }

  /** Begins to record, or ends it. */
  async toggle() {
    if (this.#place) await this.#end(await this.#place.stopRecording());
    else await this.#begin(this.#session.place);
  }

  async #begin(place) {
    this.#show(await place.startRecording());
    this.#find("recording").hidden = true;
    this.#place = place;
    this.#timer = setInterval(() => this.#look(place), LOOK_MS);
  }

  /** It may end by itself. */
  async #look(place) {
    const told = await place.recording().catch((error) => (error.isGone ? GONE : null));
    if (!told || place !== this.#place) return;
    if (told.state === "recording") this.#show(told);
    else this.#end(told);
  }

  #end(told) {
    clearInterval(this.#timer);
    const place = this.#place;
    this.#place = null;
    this.#show(told);
    if (ENDS[told.reason]) this.#say(ENDS[told.reason]);
    this.#link(place, told.files);
  }

  /** A recording ends with its session; what it has written can still be fetched. */
  #followSession() {
    this.#find("record").disabled = !this.#session.hasPlace;
    if (this.#place && this.#place !== this.#session.place) this.#look(this.#place);
  }

  #show({ state, seconds }) {
    const button = this.#find("record");
    const runs = state === "recording";
    button.setAttribute("aria-pressed", runs);
    button.textContent = runs ? `Stop ${clock(seconds)}` : "Record";
    button.title = runs ? "Stop recording" : "Record this session as MP4, on the server";
  }

  /** The files of the newest recording. */
  #link(place, files) {
    const newest = files.at(-1)?.name.match(/\d+/)[0];
    const own = files.filter(({ name }) => name.match(/\d+/)[0] === newest);
    this.#find("recording-links").replaceChildren(...own.map((file) => link(place, file)));
    this.#find("recording").hidden = !own.length;
  }
}

function link(place, { name, bytes, href }) {
  const item = document.createElement("a");
  item.href = place.fileUrl(href);
  item.download = name;
  item.textContent = `${name} (${size(bytes)})`;
  return item;
}

function clock(seconds) {
  const whole = Math.floor(seconds);
  return `${Math.floor(whole / 60)}:${String(whole % 60).padStart(2, "0")}`;
}

function size(bytes) {
  return bytes < 1e6 ? `${Math.max(1, Math.round(bytes / 1e3))} kB` : `${(bytes / 1e6).toFixed(1)} MB`;
}
