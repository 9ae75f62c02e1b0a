import { byId } from "./dom.js";

/** A rollout that has run for less is reset at once. */
const MIN_AGE_MS = 30_000;
const DELAY_MS = 4000;

/** Delays the reset of a rollout that has run for a while, so that an accidental one can be undone. */
export class UndoableReset {
  #bar = byId("undo");
  #text = byId("undo-text");
  #startedAt = 0;
  /** @type {{ resolve: (isKept: boolean) => void, end: number, timer: ReturnType<typeof setInterval> } | null} */
  #pending = null;

  /** Starts to listen. */
  listen() {
    byId("undo-button").addEventListener("click", () => this.#finish(false));
    byId("undo-now").addEventListener("click", () => this.#finish(true));
  }

  /**
   * A rollout has started.
   *
   * @param {number} [age] milliseconds that it has run before, as far as is known
   */
  onStart(age = 0) {
    this.#startedAt = performance.now() - age;
    this.#finish(false);
  }

  /** The reset that is due, if any, is not made. */
  cancel() {
    this.#finish(false);
  }

  /**
   * Waits until the reset is due: at once for a rollout that has just started, or if a reset is due already.
   *
   * @param {boolean} isRunning whether there is a rollout to lose
   * @returns {Promise<boolean>} false if the user has undone it
   */
  async confirm(isRunning) {
    if (this.#pending) {
      this.#finish(true);
      return false; // the reset that was due is made now
    }
    if (!isRunning || performance.now() - this.#startedAt < MIN_AGE_MS) return true;
    return new Promise((resolve) => {
      const timer = setInterval(() => this.#update(), 250);
      this.#pending = { resolve, end: performance.now() + DELAY_MS, timer };
      this.#update();
      this.#bar.hidden = false;
    });
  }

  #update() {
    if (!this.#pending) return;
    const seconds = Math.ceil((this.#pending.end - performance.now()) / 1000);
    this.#text.textContent = `Starting again in ${Math.max(seconds, 1)} s.`;
    if (performance.now() >= this.#pending.end) this.#finish(true);
  }

  /** @param {boolean} isKept whether the reset is made */
  #finish(isKept) {
    if (!this.#pending) return;
    clearInterval(this.#pending.timer);
    this.#pending.resolve(isKept);
    this.#pending = null;
    this.#bar.hidden = true;
  }
}
