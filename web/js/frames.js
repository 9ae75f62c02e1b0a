/** Frames whose identity or presentation waits for the other half. */
const MOST_UNMATCHED = 240;

/** Which frame of the server each presented picture is: both are known by an RTP timestamp, and either may come first. */
export class FrameMatcher {
  #onMatch;
  #identities = new Map();
  #pictures = new Map();

  /** @param {(identity: Identity, picture: Picture) => void} onMatch
   * @typedef {{epoch: number, seq: number, index: number, actionSeq: number | null}} Identity
   * @typedef {{time: number, received?: number, decoded?: number}} Picture milliseconds of `performance.now()`
   */
  constructor(onMatch) {
    this.#onMatch = onMatch;
  }

  /** A frame message of the server. */
  identify({ rtp, epoch, seq, index, action_seq: actionSeq }) {
    this.#match(rtp, this.#identities, { epoch, seq, index, actionSeq });
  }

  /** A picture was presented. */
  present(picture) {
    this.#match(picture.rtp, this.#pictures, picture);
  }

  /** Frames of before are not awaited any more. */
  forget() {
    this.#identities.clear();
    this.#pictures.clear();
  }

  #match(rtp, own, half) {
    own.set(rtp, half);
    if (this.#identities.has(rtp) && this.#pictures.has(rtp)) {
      this.#onMatch(this.#identities.get(rtp), this.#pictures.get(rtp));
      this.#identities.delete(rtp);
      this.#pictures.delete(rtp);
    } else if (own.size > MOST_UNMATCHED) {
      own.delete(own.keys().next().value);
    }
  }
}
