import { PROTOCOL_VERSION } from "./protocol.js";

/** @import { Presented } from "./protocol.js" */

const HEARTBEAT_MS = 500;
const PING_MS = 1000;

/**
 * Sends the input: at once for an urgent change, once per animation frame for movement, and as a heartbeat. While the network
 * stalls, only urgent changes are sent.
 */
export class ControlSender {
  #input;
  #channel;
  #seq;
  /** @type {number | null} */
  #frame = null;
  #lastSent = 0;
  /** @type {ReturnType<typeof setInterval>[]} */
  #timers = [];

  /** Whether only pings and reports of frames are sent, as by a client that watches. */
  isReadOnly = false;
  /** @type {(seq: number, time: number) => void} Called with the number of each message that carries a key press. */
  onPress = () => {};
  /** @type {(sent: number, serverNs: number, received: number) => void} Called for each pong. */
  onPong = () => {};

  /**
   * @param {import("./input.js").Input} input
   * @param {Pick<import("./channel.js").ControlChannel, "on" | "send" | "isCongested">} channel
   * @param {number} firstSeq number of the first message
   */
  constructor(input, channel, firstSeq = 0) {
    this.#seq = firstSeq;
    this.#input = input;
    this.#channel = channel;
  }

  /** Starts heartbeats and pings. */
  start() {
    this.#channel.on("open", () => {
      this.#input.resendFields();
      this.flush();
      this.#ping();
    });
    this.#channel.on("message", (message) => {
      if (message.type !== "pong" || typeof message.t !== "number") return;
      this.onPong(message.t, message.server_ns, performance.now());
    });
    this.#timers = [setInterval(() => this.#heartbeat(), HEARTBEAT_MS), setInterval(() => this.#ping(), PING_MS)];
  }

  /** Ends heartbeats and pings. */
  stop() {
    for (const timer of this.#timers) clearInterval(timer);
    if (this.#frame !== null) cancelAnimationFrame(this.#frame);
  }

  /**
   * Call after a change of the input.
   *
   * @param {boolean} urgent whether to send it at once instead of at the next animation frame
   */
  onInputChange(urgent) {
    if (urgent) this.flush();
    else this.#frame ??= requestAnimationFrame(() => this.#sendMovement());
  }

  /** Sends the state and the edges now. */
  flush() {
    if (this.isReadOnly) return;
    if (this.#frame !== null) cancelAnimationFrame(this.#frame);
    this.#frame = null;
    const body = this.#input.snapshot();
    const seq = this.#send("controls", { t: performance.now(), ...body });
    this.#input.onSent(seq !== null);
    if (seq === null) return;
    this.#sendLongFields();
    this.#lastSent = performance.now();
    for (const edge of body.edges) {
      if (edge.kind === "key_down") this.onPress(seq, edge.t);
    }
  }

  /** Sends long fields, each on its own, so that a field that cannot be sent now holds up nothing else. */
  #sendLongFields() {
    for (const [name, value] of this.#input.longFields) {
      const seq = this.#send("controls", { t: performance.now(), fields: { [name]: value } });
      if (seq !== null) this.#input.onFieldSent(name);
    }
  }

  /** Releases everything here and on the server, because the page has lost the focus. */
  blur() {
    if (this.isReadOnly) return;
    this.flush();
    this.#input.releaseAll();
    this.#send("blur", {});
  }

  /** @param {Presented} body */
  sendPresented(body) {
    if (!this.#channel.isCongested) this.#send("presented", body);
  }

  /** Sends the movement since the last message; while the network stalls, it adds up. */
  #sendMovement() {
    this.#frame = null;
    if (this.#channel.isCongested) this.onInputChange(false);
    else this.flush();
  }

  #heartbeat() {
    if (this.#channel.isCongested) return;
    if (performance.now() - this.#lastSent >= HEARTBEAT_MS / 2) this.flush();
  }

  #ping() {
    if (!this.#channel.isCongested) this.#send("ping", { t: performance.now() });
  }

  /**
   * @param {string} type
   * @param {object} body
   * @returns {number | null} the number of the message; null if no connection is open
   */
  #send(type, body) {
    const seq = this.#seq;
    if (!this.#channel.send({ v: PROTOCOL_VERSION, type, seq, ...body })) return null;
    this.#seq += 1;
    return seq;
  }
}
