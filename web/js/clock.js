/** Pings that the estimate is chosen from. */
const MAX_SAMPLES = 16;
/** Maximum drift between the two clocks: 100 ppm, in milliseconds per millisecond. */
const MAX_DRIFT = 1e-4;
/** Browsers round their clock to 0.1 ms or 1 ms. */
const RESOLUTION_MS = 1;

/**
 * Estimates the offset of the server's monotonic clock from pings, as NTP does (RFC 5905): the server's time belongs to the
 * middle of the round trip, with an uncertainty of half of it. The sample with the smallest uncertainty wins, where
 * uncertainty grows with age.
 *
 * @typedef {{ offset: number, uncertainty: number }} ClockEstimate milliseconds: the page's clock plus `offset` is the
 *   server's clock, within `uncertainty`
 */
export class ServerClock {
  /** @type {(ClockEstimate & { time: number })[]} */
  #samples = [];

  /**
   * Adds a ping that was sent at `sent` and whose pong was received at `received`.
   *
   * @param {number} sent milliseconds of `performance.now()`
   * @param {number} serverNs the server's clock, nanoseconds
   * @param {number} received milliseconds of `performance.now()`
   */
  addPong(sent, serverNs, received) {
    const [offset, uncertainty] = [serverNs / 1e6 - (sent + received) / 2, (received - sent) / 2];
    const known = this.estimate(received);
    // A clock that stopped while the machine was suspended has a new offset.
    if (known && Math.abs(offset - known.offset) > uncertainty + known.uncertainty + RESOLUTION_MS) this.clear();
    this.#samples.push({ offset, uncertainty, time: received });
    if (this.#samples.length > MAX_SAMPLES) this.#samples.shift();
  }

  /**
   * @param {number} now milliseconds of `performance.now()`
   * @returns {ClockEstimate | null} null before the first pong
   */
  estimate(now) {
    /** @type {ClockEstimate | null} */
    let best = null;
    for (const { offset, uncertainty, time } of this.#samples) {
      const aged = uncertainty + MAX_DRIFT * Math.max(0, now - time);
      if (!best || aged < best.uncertainty) best = { offset, uncertainty: aged };
    }
    return best;
  }

  /** Drops all samples, for another server may answer from now on. */
  clear() {
    this.#samples = [];
  }
}
