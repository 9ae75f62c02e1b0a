import { Problem, Unreachable, takePlace } from "./api.js";
import { Backoff, sleep, visible } from "./timing.js";
import { LABELS, TRANSPORTS, obstacleTo } from "./transports.js";

/** @typedef {import("./transports.js").Transport} Transport */

/**
 * One person's stay in the demo: takes a place, shows the picture, falls back to the next way, comes back after a loss.
 *
 * Events, with their `detail`:
 * - `state`: `{state, text, seconds}`; state is one of `connecting`, `waiting` (all places taken, next try in `seconds`),
 *   `live`, `reconnecting`, `ended`
 * - `fallback`: a sentence that says which way is used instead of a better one, and why; `null` when WebRTC is tried again
 * - `place`: a place was taken with the context
 * - `refused`: the {@link Problem} (422) that names the fields to correct; the session is over
 * - `server`: an event message of the server
 */
export class Session extends EventTarget {
  #demo;
  #channel;
  #makeViewer;
  #forced;
  #transport;
  #reasons = [];
  #place = null;
  #viewer = null;
  #run = null;
  #backoff = new Backoff();
  #context;

  /**
   * @param {object} demo the answer of `GET /api/demo`
   * @param {import("./channel.js").ControlChannel} channel
   * @param {(transport: Transport) => ReturnType<import("./picture.js").Picture["viewer"]>} makeViewer
   * @param {() => Record<string, unknown>} context what a new place is asked for with
   * @param {Transport | null} forced the transport that the address asks for
   */
  constructor(demo, channel, makeViewer, context, forced) {
    super();
    this.#demo = demo;
    this.#channel = channel;
    this.#makeViewer = makeViewer;
    this.#context = context;
    this.#forced = forced;
    this.active = true;
    channel.addEventListener("message", ({ detail }) => this.#hear(detail));
  }

  /** @returns {Transport | undefined} how the picture comes, or is to come */
  get transport() {
    return this.#transport;
  }

  /** What shows the picture now, or null. */
  get viewer() {
    return this.#viewer;
  }

  /** The place in the demo, or null. */
  get place() {
    return this.#place;
  }

  /** Whether a place in the demo is held. */
  get hasPlace() {
    return this.#place !== null;
  }

  /** Starts, or starts again after the end. */
  start() {
    this.#run?.abort();
    this.#run = new AbortController();
    const { signal } = this.#run;
    this.#backoff.reset();
    this.#chooseTransport();
    this.#stay(signal).catch((error) => {
      if (!signal.aborted) this.#fail(error);
    });
  }

  /** Leaves: the place goes back to the server. */
  close() {
    this.#run?.abort();
    this.#leave()?.release().catch(() => {});
  }

  /** Gives WebRTC another chance after a fallback. */
  retryWebrtc() {
    this.#reasons = [];
    this.#use("webrtc");
    this.#viewer?.stop();
  }

  /** Pauses the session, or lets it run on. */
  async setActive(active) {
    await this.#place.setActive(active);
    this.active = active;
  }

  /** Starts anew in the same place. @param {Record<string, unknown>} context empty: the same as the last one */
  async reset(context) {
    await this.#place.reset(context);
  }

  /** @returns {Promise<Blob>} where the time of the last frames went */
  async trace() {
    return this.#place.trace();
  }

  #chooseTransport() {
    this.#reasons = [];
    const obstacle = this.#forced && obstacleTo(this.#forced);
    if (this.#forced && !obstacle) {
      this.#use(this.#forced);
      return;
    }
    this.#transport = this.#forced;
    if (obstacle) this.#reasons.push(obstacle);
    this.#useNext();
  }

  /** The ways that the server offers after the present one, best first. */
  get #ways() {
    return TRANSPORTS.slice(TRANSPORTS.indexOf(this.#transport) + 1).filter((way) => this.#demo.transports.includes(way));
  }

  /** Takes the best of the ways that are left and that this browser knows; remembers why it passes over others. */
  #useNext() {
    for (const way of this.#ways) {
      const obstacle = obstacleTo(way);
      if (!obstacle) {
        this.#use(way);
        return;
      }
      this.#reasons.push(obstacle);
    }
    this.#use("mjpeg");
  }

  #use(transport) {
    this.#transport = transport;
    const why = this.#reasons.join(". ");
    this.#tell("fallback", why ? `${why}: showing ${LABELS[transport]}` : null);
  }

  async #stay(signal) {
    while (!signal.aborted) {
      try {
        await this.#takePlace(signal);
        const why = await this.#watch(signal);
        signal.throwIfAborted();
        this.#state("reconnecting", why ? `Connecting again: ${why}` : "Connecting again");
      } catch (error) {
        if (signal.aborted) throw error;
        if (this.#canFallBack(error)) {
          this.#reasons.push(reasonOf(error, this.#transport));
          this.#useNext();
          continue;
        }
        this.#expect(error);
      }
      await sleep(this.#backoff.next(), signal);
    }
  }

  /** Lets pass what another attempt may mend; throws everything else. */
  #expect(error) {
    if (error instanceof Problem && error.isGone && this.#place) {
      this.#leave();
      this.#backoff.reset(); // the server answers: what grew was for its absence
      this.#state("reconnecting", "The session has ended: taking a new place");
      return;
    }
    if (error instanceof Problem && error.status < 500) throw error;
    this.#state("reconnecting", `${error.message}: trying again`);
  }

  async #takePlace(signal) {
    if (this.#place) {
      await this.#place.check();
      return;
    }
    await visible();
    while (!this.#place) {
      this.#state("connecting", "Taking a place");
      try {
        this.#place = await takePlace(this.#context(), signal);
      } catch (error) {
        if (!(error instanceof Problem) || error.status !== 503) throw error;
        await this.#wait(error, signal);
      }
    }
    this.active = true;
    this.#channel.open(this.#place.controls);
    this.#tell("place", null);
  }

  async #wait(problem, signal) {
    for (let seconds = Math.max(1, problem.retryAfter); seconds > 0; seconds -= 1) {
      this.dispatchEvent(new CustomEvent("state", { detail: { state: "waiting", text: problem.message, seconds } }));
      await sleep(1000, signal);
    }
  }

  async #watch(signal) {
    this.#state("connecting", "Connecting");
    const viewer = this.#makeViewer(this.#transport);
    this.#viewer = viewer;
    const { ice_servers: iceServers, ice_transport_policy: iceTransportPolicy } = this.#demo;
    const stop = () => viewer.stop();
    signal.addEventListener("abort", stop, { once: true });
    try {
      const expectPicture = this.active;
      const options = { iceServers, iceTransportPolicy, channel: this.#channel, expectPicture, signal };
      await viewer.start(this.#place, options);
      this.#backoff.reset();
      this.#state("live", "Live");
      return await viewer.ended;
    } finally {
      signal.removeEventListener("abort", stop);
      this.#viewer = null;
      await viewer.stop();
    }
  }

  #canFallBack(error) {
    if (this.#forced || !this.#place) return false;
    if (error instanceof Unreachable || (error instanceof Problem && error.isGone)) return false;
    return this.#ways.some((way) => !obstacleTo(way));
  }

  #hear(message) {
    if (message.type !== "event") return;
    if (message.event === "active_changed") this.active = message.active;
    if (message.event === "detached") this.#viewer?.stop();
    if (message.event === "failed" && message.fatal) {
      this.#run.abort();
      this.#fail(new Error(message.error));
    }
    this.#tell("server", message);
  }

  #leave() {
    const place = this.#place;
    this.#place = null;
    this.#channel.close();
    return place;
  }

  #fail(error) {
    this.#leave()?.release().catch(() => {});
    if (error instanceof Problem && error.status === 422) this.#tell("refused", error);
    else this.#state("ended", error.message);
  }

  #state(state, text) {
    this.dispatchEvent(new CustomEvent("state", { detail: { state, text, seconds: 0 } }));
  }

  #tell(type, detail) {
    this.dispatchEvent(new CustomEvent(type, { detail }));
  }
}

function reasonOf(error, transport) {
  if (!(error instanceof Problem)) return error.message;
  return `${LABELS[transport]} could not connect (${error.message.replace(/\.$/, "")})`;
}
