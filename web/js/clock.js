/** Pings that an estimate is chosen from. */
const MOST_SAMPLES = 16;
/** How far two clocks may run apart, in milliseconds a millisecond: 100 parts in a million. */
const DRIFT = 1e-4;
/** Browsers round their clock to a tenth of a millisecond or a whole one. */
const RESOLUTION_MS = 1;

/**
 * What the server's monotonic clock shows, from the pongs that it answers pings with: its time belongs to the middle of the
 * round trip, give or take half of it. The shortest round trip tells most, and less the older it is.
 */
export class ServerClock {
  #samples = [];

  /** A ping sent at `sent` was answered at `serverNs` of the server's clock, which was heard at `received`. */
  pong(sent, serverNs, received) {
    const [offset, uncertainty] = [serverNs / 1e6 - (sent + received) / 2, (received - sent) / 2];
    const known = this.estimate(received);
    // A clock that stood still while the machine slept is a new one.
    if (known && Math.abs(offset - known.offset) > uncertainty + known.uncertainty + RESOLUTION_MS) this.clear();
    this.#samples.push({ offset, uncertainty, time: received });
    if (this.#samples.length > MOST_SAMPLES) this.#samples.shift();
  }

  /**
   * @param {number} now of `performance.now()`
   * @returns {{offset: number, uncertainty: number} | null} milliseconds: this page's clock plus `offset` is the server's,
   *   give or take `uncertainty`
   */
  estimate(now) {
    const aged = this.#samples.map(({ offset, uncertainty, time }) => ({
      offset,
      uncertainty: uncertainty + DRIFT * Math.max(0, now - time),
    }));
    return aged.reduce((best, one) => (best && best.uncertainty <= one.uncertainty ? best : one), null);
  }

  /** Another server may answer from now on. */
  clear() {
    this.#samples = [];
  }
}
