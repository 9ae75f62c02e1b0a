/** Version of the wire protocol. */
const VERSION = 1;
const HEARTBEAT_MS = 500;
const PING_MS = 1000;

/**
 * Turns the input into messages: at once on a change, once per animation frame for movement, and as a heartbeat.
 *
 * `onPress(seq, time)` tells which message carried a key press, `onPong(sent, serverNs, received)` when a ping
 * was sent and answered, and what the server's clock was.
 */
export class Sender {
  #input;
  #channel;
  #seq = 0;
  #frame = 0;
  #lastSent = 0;

  /**
   * @param {import("./input.js").Input} input
   * @param {import("./channel.js").ControlChannel} channel
   */
  constructor(input, channel) {
    this.#input = input;
    this.#channel = channel;
    this.onPress = (_seq, _time) => {};
    this.onPong = (_sent, _serverNs, _received) => {};
  }

  /** Begins to repeat the state and to measure the round trip. */
  start() {
    this.#channel.addEventListener("open", () => {
      this.#input.repeatFields();
      this.flush();
      this.#ping();
    });
    this.#channel.addEventListener("message", ({ detail }) => {
      if (detail.type === "pong") this.onPong(detail.t, detail.server_ns, performance.now());
    });
    setInterval(() => this.#heartbeat(), HEARTBEAT_MS);
    setInterval(() => this.#ping(), PING_MS);
  }

  /** The input has changed; without `urgent` it waits for the next animation frame. */
  changed(urgent) {
    if (urgent) this.flush();
    else this.#frame ||= requestAnimationFrame(() => this.flush());
  }

  /** Sends the state and the edges now. */
  flush() {
    cancelAnimationFrame(this.#frame);
    this.#frame = 0;
    const body = this.#input.snapshot();
    const seq = this.#send("controls", { t: performance.now(), ...body });
    this.#input.sent(seq !== null);
    if (seq === null) return;
    this.#lastSent = performance.now();
    const presses = body.edges.filter((edge) => edge.kind === "key_down");
    presses.forEach((edge) => this.onPress(seq, edge.t));
  }

  /** The person looks elsewhere: everything is let go, here and on the server. */
  blur() {
    this.flush();
    this.#input.releaseAll();
    this.#send("blur", {});
  }

  /** Frames were shown. @returns {boolean} whether that could be sent */
  presented(body) {
    return this.#send("presented", body) !== null;
  }

  #heartbeat() {
    if (performance.now() - this.#lastSent >= HEARTBEAT_MS / 2) this.flush();
  }

  #ping() {
    this.#send("ping", { t: performance.now() });
  }

  #send(type, body) {
    if (!this.#channel.isOpen) return null;
    const seq = this.#seq;
    const message = { v: VERSION, type, seq, ...body };
    if (!this.#channel.send(message)) return null;
    this.#seq += 1;
    return seq;
  }
}
