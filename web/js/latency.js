/** Samples that the rolling numbers are made of. */
const WINDOW = 31;
/** A press without a frame after this time will not be answered any more. */
const PATIENCE_MS = 5000;
/** Frames whose identity or presentation waits for the other half. */
const MOST_UNMATCHED = 240;

/**
 * Measures key-to-pixel latency: from a key press to the presentation of the first frame that was shaped by the message
 * which carried it. All times in milliseconds of `performance.now()`.
 */
export class KeyToPixel {
  #presses = [];
  #samples = [];
  #identities = new Map();
  #presentations = new Map();

  /** Message `seq` carried a key press that happened at `time`. */
  press(seq, time) {
    this.#presses.push({ seq, time });
  }

  /** The frame with this RTP timestamp was shaped by all messages up to `actionSeq`. */
  identify(rtp, actionSeq) {
    const time = this.#presentations.get(rtp);
    if (time === undefined) remember(this.#identities, rtp, actionSeq);
    else this.show(actionSeq, time);
  }

  /** The frame with this RTP timestamp was presented at `time`. */
  present(rtp, time) {
    if (!this.#identities.has(rtp)) {
      remember(this.#presentations, rtp, time);
      return;
    }
    this.show(this.#identities.get(rtp), time);
    this.#identities.delete(rtp);
  }

  /** A frame shaped by all messages up to `actionSeq` was presented at `time`. */
  show(actionSeq, time) {
    if (actionSeq === null) return;
    const answered = this.#presses.filter((press) => press.seq <= actionSeq && press.time <= time);
    this.#samples = [...this.#samples, ...answered.map((press) => time - press.time)].slice(-WINDOW);
    this.#presses = this.#presses.filter((press) => press.seq > actionSeq && time - press.time < PATIENCE_MS);
  }

  /** Frames of before are not awaited any more; the samples stay. */
  forget() {
    this.#presses = [];
    this.#identities.clear();
    this.#presentations.clear();
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
    return sorted.length ? sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] : null;
  }
}

function remember(map, key, value) {
  map.set(key, value);
  if (map.size > MOST_UNMATCHED) map.delete(map.keys().next().value);
}
