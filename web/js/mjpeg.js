import { messageOf, request } from "./api.js";
import { receiveJpegs } from "./jpeg_socket.js";
import { MultipartReader } from "./multipart.js";
import { PresentationReporter } from "./presentation.js";
import { Deadline, Deferred, sleep } from "./timing.js";

/** @import { SessionGrant } from "./api.js" */
/** @import { FrameIdentity } from "./frames.js" */

/** Timeout of the first image of an open stream: the model may still be warming up. */
const FIRST_IMAGE_TIMEOUT_MS = 30_000;
/** Interval of the checks whether the session exists, where the page cannot read the stream. */
const CHECK_MS = 3000;

/**
 * @typedef {object} Picture
 * @property {Uint8Array<ArrayBuffer>} data
 * @property {FrameIdentity | null} identity
 * @property {string} key that a repetition of the picture has too, or ""
 */

/**
 * Shows a session as Motion JPEG. The page passes each JPEG to the `<img>`. In this way it knows which frame is shown when,
 * skips to the newest one if decoding falls behind, and learns why a stream ended. The pictures come over the video WebSocket:
 * a browser opens six connections to a server over HTTP/1.1, which as many streams would occupy. Where no WebSocket opens,
 * they come as an MJPEG stream.
 *
 * Implements {@link import("./display.js").Viewer}.
 */
export class MjpegViewer {
  #image;
  #presentation;
  #abort = new AbortController();
  /** @type {Picture | null} */
  #next = null;
  #isShowing = false;
  /** Whether the page has shown a picture that it has read. */
  #hasShown = false;
  #lastKey = "";
  #bytes = 0;
  #skipped = 0;
  /** @type {Deferred<boolean>} */
  #started = new Deferred();
  /** @type {Deferred<string>} */
  #ended = new Deferred();

  /** MJPEG connections have no name. */
  id = null;
  ended = this.#ended.promise;

  /**
   * @param {HTMLImageElement} image
   * @param {import("./display.js").OnFrame} onFrame
   */
  constructor(image, onFrame) {
    this.#image = image;
    this.#presentation = new PresentationReporter(onFrame);
  }

  /**
   * @param {SessionGrant} grant
   * @param {Pick<import("./display.js").ViewerOptions, "expectFrame">} options
   */
  start(grant, { expectFrame }) {
    const deadline = new Deadline(this.#started.reject);
    this.#run(grant, expectFrame, deadline).catch(this.#started.reject);
    return this.#started.promise.finally(() => deadline.clear());
  }

  async stop() {
    this.#started.resolve(false);
    this.#ended.resolve("");
    this.#abort.abort();
    this.#next = null;
  }

  async statistics() {
    const isCounted = this.#hasShown;
    return { codec: "JPEG", bytes: isCounted ? this.#bytes : null, dropped: isCounted ? this.#skipped : null };
  }

  /**
   * @param {SessionGrant} grant
   * @param {boolean} expectFrame
   * @param {Deadline} deadline of the first image
   */
  async #run(grant, expectFrame, deadline) {
    const onOpen = () => {
      if (expectFrame) deadline.set(FIRST_IMAGE_TIMEOUT_MS, "No image received over MJPEG");
      else this.#started.resolve(true);
    };
    const reason = (await this.#receive(grant, onOpen)) ?? (await this.#stream(grant, onOpen));
    this.#started.reject(new Error(reason));
    this.#ended.resolve(reason);
  }

  /**
   * Shows the pictures of the video WebSocket.
   *
   * @param {SessionGrant} grant
   * @param {() => void} onOpen
   * @returns {Promise<string | null>} why it ended, null if it brought no picture
   */
  async #receive(grant, onOpen) {
    const { signal } = this.#abort;
    let hasPicture = false;
    await receiveJpegs(grant.video, {
      signal,
      onOpen,
      onPicture: ({ data, ...identity }) => {
        hasPicture = true;
        this.#bytes += data.length;
        this.#offer({ data, identity, key: "" });
      },
    });
    if (signal.aborted) return "";
    return hasPicture ? "the connection was lost" : null;
  }

  /**
   * Shows the MJPEG stream.
   *
   * @param {SessionGrant} grant
   * @param {() => void} onOpen
   * @returns {Promise<string>} why it ended
   */
  async #stream(grant, onOpen) {
    const response = await request("GET", grant.mjpeg, { signal: this.#abort.signal });
    onOpen();
    return this.#play(grant, response);
  }

  /**
   * @param {SessionGrant} grant
   * @param {Response} response
   * @returns {Promise<string>} why it ended
   */
  async #play(grant, response) {
    if (response.body && response.headers.get("Content-Type")?.startsWith("multipart/")) {
      const reason = await this.#read(response.body.getReader());
      if (this.#hasShown || this.#abort.signal.aborted) return reason;
    }
    return this.#showUnread(grant);
  }

  /**
   * Passes the stream to the `<img>`, for browsers that split the stream before a page can read it. Frames are not counted
   * then, and no event reports the end of the stream, so the session is checked from time to time.
   *
   * @param {SessionGrant} grant
   * @returns {Promise<string>} why it ended
   */
  async #showUnread(grant) {
    const { signal } = this.#abort;
    this.#image.onload = () => this.#started.resolve(true);
    this.#image.onerror = null;
    this.#image.src = grant.mjpeg.href;
    try {
      for (;;) {
        await sleep(CHECK_MS, signal);
        await grant.describe();
      }
    } catch (error) {
      return signal.aborted ? "" : messageOf(error);
    } finally {
      this.#image.removeAttribute("src");
    }
  }

  /**
   * @param {ReadableStreamDefaultReader<Uint8Array<ArrayBuffer>>} reader
   * @returns {Promise<string>} why it ended
   */
  async #read(reader) {
    const parts = new MultipartReader();
    try {
      for (;;) {
        const { done, value } = await reader.read();
        if (done) return "the stream has ended";
        this.#bytes += value.length;
        for (const { headers, body } of parts.push(value)) {
          const key = headers.get("x-frame") ?? "";
          this.#offer({ data: body, identity: parseIdentity(key), key });
        }
      }
    } catch (error) {
      return error instanceof Error && error.name === "AbortError" ? "" : "the stream was interrupted";
    }
  }

  /** @param {Picture} picture */
  #offer(picture) {
    if (this.#next) this.#skipped += 1;
    this.#next = picture;
    if (!this.#isShowing) this.#showPending();
  }

  async #showPending() {
    this.#isShowing = true;
    while (this.#next) {
      const { data, identity, key } = this.#next;
      this.#next = null;
      if (this.#isRepeated(key) || !(await this.#show(data))) continue;
      this.#lastKey = key;
      this.#hasShown = true;
      this.#started.resolve(true);
      this.#presentation.add({ identity });
    }
    this.#isShowing = false;
  }

  /**
   * Whether the server repeats the last frame, as it does to keep an idle connection open.
   *
   * @param {string} key
   */
  #isRepeated(key) {
    return key !== "" && key === this.#lastKey;
  }

  /**
   * @param {Uint8Array<ArrayBuffer>} jpeg
   * @returns {Promise<boolean>} whether it could be decoded
   */
  async #show(jpeg) {
    const url = URL.createObjectURL(new Blob([jpeg], { type: "image/jpeg" }));
    const loaded = await new Promise((resolve) => {
      this.#image.onload = () => resolve(true);
      this.#image.onerror = () => resolve(false);
      this.#image.src = url;
    });
    URL.revokeObjectURL(url);
    return loaded;
  }
}

/**
 * Parses an X-Frame header.
 *
 * @param {string} header such as "session=a;epoch=1;seq=7;index=0;action=12"
 * @returns {FrameIdentity | null} null if it has another form
 */
export function parseIdentity(header) {
  const match = header.match(/;epoch=(\d+);seq=(\d+);index=(\d+);action=(\d*)$/);
  if (!match) return null;
  const [epoch, seq, index] = match.slice(1, 4).map(Number);
  return { epoch, seq, index, actionSeq: match[4] ? Number(match[4]) : null };
}
