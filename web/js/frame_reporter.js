/** @import { Presented, PresentedFrame } from "./protocol.js" */

/** A message holds at most this many frames, */
const BATCH_FRAMES = 8;
/** and its first frame waits at most this long. */
const BATCH_MS = 250;
/** Frames kept while the offset of the server's clock is unknown. */
const MAX_PENDING_FRAMES = 64;
/** Minimum interval between requests for timing statistics. */
const TIMING_INTERVAL_MS = 1000;

/** Reports to the server which frames were presented and when, in batches. */
export class FrameReporter {
  #clock;
  #send;
  /** @type {string | null} */
  #viewer = null;
  /** @type {PresentedFrame[]} */
  #frames = [];
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  #timer;
  #timingRequestedAt = -Infinity;

  /** Whether to ask the server for timing statistics. */
  wantsTiming = false;

  /**
   * @param {import("./clock.js").ServerClock} clock
   * @param {(body: Presented) => void} send
   */
  constructor(clock, send) {
    this.#clock = clock;
    this.#send = send;
  }

  /**
   * Adds a presented frame.
   *
   * @param {string | null} viewer name of the connection that carried it, null for MJPEG
   * @param {PresentedFrame} frame
   */
  add(viewer, frame) {
    if (viewer !== this.#viewer) this.flush();
    this.#viewer = viewer;
    this.#frames.push(frame);
    if (this.#frames.length > MAX_PENDING_FRAMES) this.#frames.shift();
    if (this.#frames.length >= BATCH_FRAMES) this.flush();
    else this.#timer ??= setTimeout(() => this.flush(), BATCH_MS);
  }

  /** Sends the pending frames. Before the first pong, they stay pending. */
  flush() {
    this.#stopTimer();
    const now = performance.now();
    const clock = this.#clock.estimate(now);
    if (!clock || !this.#frames.length) return;
    const timing = this.wantsTiming && now - this.#timingRequestedAt >= TIMING_INTERVAL_MS;
    if (timing) this.#timingRequestedAt = now;
    this.#send({ viewer: this.#viewer, clock, timing, frames: this.#frames.splice(0) });
  }

  /** Drops the pending frames. */
  clear() {
    this.#stopTimer();
    this.#frames = [];
  }

  #stopTimer() {
    clearTimeout(this.#timer);
    this.#timer = undefined;
  }
}
