import { openCamera, openFile } from "./source.js";
import { Backoff, sleep } from "./timing.js";
import { WhipPublisher } from "./whip.js";

const BITRATE = 1_800_000;
const IDLE = "Nothing is sent yet.";

/** The part of the page that sends a person's own video into their session. */
export class Camera {
  #find;
  #demo;
  #session;
  #source = null;
  #publisher = null;
  #work = new AbortController();

  /**
   * @param {(id: string) => HTMLElement} find looks up an element of the page
   * @param {object} demo the answer of `GET /api/demo`
   * @param {import("./session.js").Session} session
   */
  constructor(find, demo, session) {
    this.#find = find;
    this.#demo = demo;
    this.#session = session;
  }

  /** Whether the demo takes video. */
  static isFor(demo) {
    return Boolean(demo.video_input) && WhipPublisher.isSupported;
  }

  /** Shows the part and makes it work. */
  listen() {
    const find = this.#find;
    const { max_side: maxSide } = this.#demo.video_input;
    find("source").hidden = false;
    find("source-camera").addEventListener("click", () => this.#use(() => openCamera(maxSide)));
    find("source-file").addEventListener("change", ({ target }) => {
      const [file] = target.files;
      if (file) this.#use(() => openFile(file, maxSide));
      target.value = ""; // so that the same file can be chosen again
    });
    find("source-stop").addEventListener("click", () => this.#stop());
    for (const id of ["source-address", "source-token"]) {
      find(id).addEventListener("focus", ({ target }) => target.select());
    }
    this.#session.addEventListener("place", () => this.#placeTaken());
    this.#session.addEventListener("state", ({ detail }) => detail.state === "ended" && this.#stop());
    addEventListener("pagehide", () => this.#stop());
    this.#show(IDLE);
  }

  async #use(open) {
    this.#stop();
    const { signal } = this.#work;
    this.#show("Starting", { busy: true });
    try {
      const source = await open();
      if (signal.aborted) {
        source.stop();
        return;
      }
      this.#source = source;
    } catch (error) {
      if (!signal.aborted) this.#fail(error.message);
      return;
    }
    this.#source.track.addEventListener("ended", () => !signal.aborted && this.#fail("The camera was switched off."));
    const view = this.#find("self-view");
    view.srcObject = new MediaStream([this.#source.track]);
    view.classList.toggle("mirrored", this.#source.isCamera);
    this.#send();
  }

  /** Sends the source into the session, again and again if the connection is lost. */
  async #send() {
    const { signal } = this.#work;
    const backoff = new Backoff();
    while (this.#source && this.#session.place && !signal.aborted) {
      const { place } = this.#session;
      this.#show("Connecting", { busy: true });
      try {
        if (!(await this.#publish(place, signal, () => backoff.reset()))) return;
      } catch (error) {
        if (signal.aborted) return;
        if (error.status >= 400 && error.status < 500) {
          this.#fail(error.message);
          return;
        }
        this.#show(`${error.message}. Trying again`, { busy: true });
      }
      await sleep(backoff.next(), signal).catch(() => {});
    }
  }

  /** @returns {Promise<boolean>} whether to try again: the connection was lost, and nobody else has taken over */
  async #publish(place, signal, onConnected) {
    const publisher = new WhipPublisher();
    this.#publisher = publisher;
    const stop = () => publisher.stop();
    signal.addEventListener("abort", stop, { once: true });
    try {
      const options = { iceServers: this.#demo.ice_servers, maxSide: this.#demo.video_input.max_side, maxBitrate: BITRATE };
      await publisher.start(this.#source.track, place, options);
      onConnected();
      this.#show(this.#source.text, { live: true });
      const lost = await publisher.ended;
      if (!lost || signal.aborted || place !== this.#session.place) return false;
      const other = await place.publisher();
      if (other === null || other === publisher.id) return true;
      this.#fail("Video now comes from somewhere else, such as OBS.");
      return false;
    } finally {
      signal.removeEventListener("abort", stop);
      await publisher.stop();
    }
  }

  #placeTaken() {
    const { place } = this.#session;
    this.#find("source-address").value = place.whip;
    this.#find("source-token").value = place.token;
    if (!this.#source) return;
    this.#work.abort();
    this.#work = new AbortController();
    this.#send();
  }

  #stop() {
    this.#work.abort();
    this.#work = new AbortController();
    this.#source?.stop();
    this.#source = null;
    this.#find("self-view").srcObject = null;
    this.#show(IDLE);
  }

  #fail(sentence) {
    this.#stop();
    this.#find("source-error").textContent = sentence;
    this.#find("source-error").hidden = false;
  }

  #show(text, { busy = false, live = false } = {}) {
    const find = this.#find;
    find("source").dataset.state = live ? "live" : busy ? "busy" : "idle";
    find("source-text").textContent = text;
    find("source-error").hidden = true;
    find("source-stop").hidden = !busy && !live;
    find("source-camera").hidden = busy || live;
    find("self-view").hidden = !this.#source;
  }
}
