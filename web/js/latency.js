/** Samples of the rolling quantiles. */
const MAX_SAMPLES = 31;
/** Presses kept while no frame shows them. */
const MAX_PRESSES = 64;
/** A press without a frame after this time is dropped. */
const TIMEOUT_MS = 5000;

/**
 * Measures key-to-pixel latency: the time from a key press to the presentation of the first frame that is shaped by the
 * controls message which carried it. All times are milliseconds of `performance.now()`.
 *
 * @typedef {{ seq: number, time: number }} Press
 */
export class KeyToPixel {
  /** @type {Press[]} */
  #presses = [];
  /** @type {number[]} */
  #samples = [];

  /**
   * Adds a key press.
   *
   * @param {number} seq number of the message that carried it
   * @param {number} time of the key press
   */
  addPress(seq, time) {
    this.#presses.push({ seq, time });
    if (this.#presses.length > MAX_PRESSES) this.#presses.shift();
  }

  /**
   * Adds a presented frame.
   *
   * @param {number | null} actionSeq number of the newest message that shaped it
   * @param {number} time of its presentation
   * @returns {Press | null} the oldest press that this frame is the first to show
   */
  addFrame(actionSeq, time) {
    if (actionSeq === null) return null;
    const shown = this.#presses.filter((press) => press.seq <= actionSeq && press.time <= time);
    this.#samples = [...this.#samples, ...shown.map((press) => time - press.time)].slice(-MAX_SAMPLES);
    this.#presses = this.#presses.filter((press) => press.seq > actionSeq && time - press.time < TIMEOUT_MS);
    return shown[0] ?? null;
  }

  /** Drops the pending presses; the samples stay. */
  clear() {
    this.#presses = [];
  }

  /** @returns {number | null} null without samples */
  get median() {
    return this.#quantile(0.5);
  }

  /** @returns {number | null} null without samples */
  get p95() {
    return this.#quantile(0.95);
  }

  /** @param {number} share */
  #quantile(share) {
    const sorted = [...this.#samples].sort((a, b) => a - b);
    return sorted.length ? sorted[Math.ceil(sorted.length * share) - 1] : null;
  }
}
