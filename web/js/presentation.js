/** @import { OnFrame, ShownFrame } from "./display.js" */

/** A frame that waits longer for its animation frame was drawn while the page was hidden. */
const MAX_WAIT_MS = 1000;

/**
 * Reports drawn frames when they are presented: at the next animation frame. Of several drawn since the last animation
 * frame, that is the last one. A hidden page has no animation frames, so what is drawn there is not reported.
 */
export class PresentationReporter {
  #onFrame;
  /** @type {{ frame: Omit<ShownFrame, "time">, time: number } | null} */
  #drawn = null;

  /** @param {OnFrame} onFrame */
  constructor(onFrame) {
    this.#onFrame = onFrame;
  }

  /**
   * Adds a frame that was drawn now.
   *
   * @param {Omit<ShownFrame, "time">} frame
   */
  add(frame) {
    if (!this.#drawn) requestAnimationFrame(() => this.#report());
    this.#drawn = { frame, time: performance.now() };
  }

  #report() {
    const drawn = this.#drawn;
    this.#drawn = null;
    const time = performance.now();
    if (drawn && time - drawn.time <= MAX_WAIT_MS) this.#onFrame({ time, ...drawn.frame });
  }
}
