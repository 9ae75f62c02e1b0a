/** So many frames, or so much time, go into one message. */
const BATCH = 8;
const BATCH_MS = 250;
/** Frames that wait while the server's clock is not known. */
const MOST_WAITING = 64;
/** How often the numbers are asked for while somebody looks at them. */
const TIMING_MS = 1000;

/** Tells the server which frames were presented and when, a few at a time, so that it knows the whole way of each. */
export class Acknowledger {
  #clock;
  #send;
  #viewer = null;
  #frames = [];
  #timer = 0;
  #asked = -Infinity;

  /** Whether somebody looks at the numbers that the server makes of it. */
  wantsTiming = false;

  /**
   * @param {import("./clock.js").ServerClock} clock
   * @param {(body: object) => boolean} send whether the message found a way
   */
  constructor(clock, send) {
    this.#clock = clock;
    this.#send = send;
  }

  /**
   * A frame was presented.
   *
   * @param {string | null} viewer the connection that brought it, null for MJPEG
   * @param {object} frame as in the protocol
   */
  show(viewer, frame) {
    if (viewer !== this.#viewer) this.flush();
    this.#viewer = viewer;
    this.#frames.push(frame);
    if (this.#frames.length > MOST_WAITING) this.#frames.shift();
    if (this.#frames.length >= BATCH) this.flush();
    else this.#timer ||= setTimeout(() => this.flush(), BATCH_MS);
  }

  /** Sends what waits; before the first pong it goes on waiting. */
  flush() {
    clearTimeout(this.#timer);
    this.#timer = 0;
    const now = performance.now();
    const clock = this.#clock.estimate(now);
    if (!clock || !this.#frames.length) return;
    const timing = this.wantsTiming && now - this.#asked >= TIMING_MS;
    if (timing) this.#asked = now;
    this.#send({ viewer: this.#viewer, clock, timing, frames: this.#frames.splice(0) });
  }

  /** The connection is over, or the session. */
  clear() {
    clearTimeout(this.#timer);
    this.#timer = 0;
    this.#frames = [];
  }
}
