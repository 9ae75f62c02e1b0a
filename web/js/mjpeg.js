import { request } from "./api.js";
import { MultipartReader } from "./multipart.js";
import { sleep } from "./timing.js";

/** How long an open stream may take to its first picture: the model may still be warming up. */
const PATIENCE_MS = 30_000;
/** How often a session is looked after whose stream cannot be read. */
const CHECK_MS = 3000;

/**
 * Shows a session as MJPEG. The page reads the stream itself and hands each JPEG to the `<img>`: so it knows which frame is
 * shown when, skips to the newest one if decoding falls behind, and learns why a stream ended.
 *
 * `ended` resolves with the reason when the picture is lost after it was shown, with "" when it was stopped.
 */
export class MjpegViewer {
  #stopping = new AbortController();
  #next = null;
  #busy = false;
  #last = null;
  #bytes = 0;
  #skipped = 0;
  #end;
  #shown;

  /**
   * @param {HTMLImageElement} image
   * @param {(frame: {time: number, identity: object | null}) => void} onFrame called for each frame shown
   */
  constructor(image, onFrame) {
    this.image = image;
    this.onFrame = onFrame;
    this.ended = new Promise((resolve) => (this.#end = resolve));
  }

  /**
   * Resolves when the first picture is there; rejects with the reason if it does not come.
   *
   * @param {import("./api.js").Place} place
   * @param {{expectPicture: boolean, signal: AbortSignal}} options without `expectPicture` the open stream is enough
   */
  async start(place, { expectPicture, signal }) {
    signal.addEventListener("abort", () => this.#stopping.abort(signal.reason), { once: true });
    const response = await request("GET", place.mjpeg, { signal: this.#stopping.signal });
    const first = new Promise((resolve, reject) => {
      this.#shown = resolve;
      setTimeout(() => reject(new Error("No picture came by MJPEG")), PATIENCE_MS);
      this.#play(place, response).then((why) => {
        reject(new Error(why));
        this.#end(why);
      });
    });
    if (expectPicture) await first;
    else first.catch(() => {});
  }

  /** Viewers by MJPEG have no names. */
  get id() {
    return null;
  }

  /** Ends the stream; the last picture stays. */
  async stop() {
    this.#stopping.abort();
    this.#next = null;
    this.#end("");
  }

  /** @returns {Promise<Record<string, number | string | null>>} what was counted, null what cannot be. */
  async details() {
    const counts = this.#last !== null;
    return { codec: "JPEG", bytes: counts ? this.#bytes : null, dropped: counts ? this.#skipped : null };
  }

  /** @returns {Promise<string>} why it ended */
  async #play(place, response) {
    if (response.headers.get("Content-Type")?.startsWith("multipart/")) {
      const why = await this.#read(response.body.getReader());
      if (this.#last !== null || this.#stopping.signal.aborted) return why;
    }
    return this.#showPlainly(place);
  }

  /**
   * Some browsers take the stream apart before a page can read it: the `<img>` shows it then, and no frame is counted. No
   * event tells of its end, so the session is asked now and then whether it lives.
   */
  async #showPlainly(place) {
    const { signal } = this.#stopping;
    this.image.onload = () => this.#shown();
    this.image.onerror = null;
    this.image.src = place.mjpeg;
    try {
      for (;;) {
        await sleep(CHECK_MS, signal);
        await place.check();
      }
    } catch (error) {
      return signal.aborted ? "" : error.message;
    } finally {
      this.image.removeAttribute("src");
    }
  }

  async #read(reader) {
    const parts = new MultipartReader();
    try {
      for (;;) {
        const { done, value } = await reader.read();
        if (done) return "the stream ended";
        this.#bytes += value.length;
        parts.push(value).forEach((part) => this.#offer(part));
      }
    } catch (error) {
      return error.name === "AbortError" ? "" : "the stream broke off";
    }
  }

  #offer(part) {
    if (this.#next) this.#skipped += 1;
    this.#next = part;
    if (!this.#busy) this.#showNext();
  }

  async #showNext() {
    this.#busy = true;
    while (this.#next) {
      const { headers, body } = this.#next;
      const identity = headers.get("x-frame");
      this.#next = null;
      if (this.#isRepeated(identity) || !(await this.#show(body))) continue;
      this.#last = identity ?? "";
      this.#report(identity);
    }
    this.#busy = false;
  }

  /** While nothing new comes, the server repeats the last picture to keep the connection. */
  #isRepeated(identity) {
    return Boolean(identity) && identity === this.#last;
  }

  async #show(jpeg) {
    const url = URL.createObjectURL(new Blob([jpeg], { type: "image/jpeg" }));
    const loaded = await new Promise((resolve) => {
      this.image.onload = () => resolve(true);
      this.image.onerror = () => resolve(false);
      this.image.src = url;
    });
    URL.revokeObjectURL(url);
    return loaded;
  }

  #report(identity) {
    this.#shown();
    requestAnimationFrame(() => this.onFrame({ time: performance.now(), identity: readIdentity(identity) }));
  }
}

/** @param {string | undefined} identity the X-Frame header: "session=a;epoch=1;seq=7;index=0;action=12" */
function readIdentity(identity) {
  const found = identity?.match(/;epoch=(\d+);seq=(\d+);index=(\d+);action=(\d*)$/);
  if (!found) return null;
  const [epoch, seq, index] = found.slice(1, 4).map(Number);
  return { epoch, seq, index, actionSeq: found[4] ? Number(found[4]) : null };
}
