/** Samples that the rolling numbers are made of. */
const WINDOW = 31;
/** A press without a frame after this time will not be answered any more. */
const PATIENCE_MS = 5000;

/**
 * Measures key-to-pixel latency: from a key press to the presentation of the first frame that was shaped by the message
 * which carried it. All times in milliseconds of `performance.now()`.
 */
export class KeyToPixel {
  #presses = [];
  #samples = [];

  /** Message `seq` carried a key press that happened at `time`. */
  press(seq, time) {
    this.#presses.push({ seq, time });
  }

  /**
   * A frame shaped by all messages up to `actionSeq` was presented at `time`.
   *
   * @returns {{seq: number, time: number} | null} the oldest press that it is the first to show
   */
  show(actionSeq, time) {
    if (actionSeq === null) return null;
    const answered = this.#presses.filter((press) => press.seq <= actionSeq && press.time <= time);
    this.#samples = [...this.#samples, ...answered.map((press) => time - press.time)].slice(-WINDOW);
    this.#presses = this.#presses.filter((press) => press.seq > actionSeq && time - press.time < PATIENCE_MS);
    return answered[0] ?? null;
  }

  /** Presses of before are not awaited any more; the samples stay. */
  forget() {
    this.#presses = [];
  }

  /** @returns {number | null} */
  get median() {
    return this.#quantile(0.5);
  }

  /** @returns {number | null} */
  get p95() {
    return this.#quantile(0.95);
  }

  #quantile(share) {
    const sorted = [...this.#samples].sort((a, b) => a - b);
    return sorted.length ? sorted[Math.ceil(sorted.length * share) - 1] : null;
  }
}
