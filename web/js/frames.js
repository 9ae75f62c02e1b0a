/** @import { FrameMessage } from "./protocol.js" */

/** Halves kept while they wait for the other half. */
const MAX_UNMATCHED = 240;

/**
 * Joins the identity of a frame, which the server sends over the controls channel, with its presentation in the `<video>`
 * element. Both carry the RTP timestamp, and either may come first.
 *
 * @typedef {{ epoch: number, seq: number, index: number, actionSeq: number | null }} FrameIdentity
 * @typedef {{ time: number, received?: number, decoded?: number }} Presentation milliseconds of `performance.now()`
 */
export class FrameMatcher {
  #onMatch;
  /** @type {Map<number, FrameIdentity>} */
  #identities = new Map();
  /** @type {Map<number, Presentation>} */
  #presentations = new Map();

  /** @param {(identity: FrameIdentity, presentation: Presentation) => void} onMatch */
  constructor(onMatch) {
    this.#onMatch = onMatch;
  }

  /**
   * Adds the identity of a frame.
   *
   * @param {number} rtp RTP timestamp
   * @param {Pick<FrameMessage, "epoch" | "seq" | "index" | "action_seq">} message
   */
  addIdentity(rtp, { epoch, seq, index, action_seq: actionSeq = null }) {
    add(this.#identities, rtp, { epoch, seq, index, actionSeq });
    this.#match(rtp);
  }

  /**
   * Adds the presentation of a frame.
   *
   * @param {number} rtp RTP timestamp
   * @param {Presentation} presentation
   */
  addPresentation(rtp, presentation) {
    add(this.#presentations, rtp, presentation);
    this.#match(rtp);
  }

  /** Drops everything that is unmatched. */
  clear() {
    this.#identities.clear();
    this.#presentations.clear();
  }

  /** @param {number} rtp */
  #match(rtp) {
    const [identity, presentation] = [this.#identities.get(rtp), this.#presentations.get(rtp)];
    if (!identity || !presentation) return;
    this.#identities.delete(rtp);
    this.#presentations.delete(rtp);
    this.#onMatch(identity, presentation);
  }
}

/**
 * Adds an entry; beyond the maximum, drops the oldest one.
 *
 * @template T
 * @param {Map<number, T>} map
 * @param {number} key
 * @param {T} value
 */
function add(map, key, value) {
  map.set(key, value);
  if (map.size > MAX_UNMATCHED) map.delete(/** @type {number} */ (map.keys().next().value));
}
