import { Backoff } from "./timing.js";

/** Room for the framing around a message in a data channel, in bytes. */
const HEADROOM = 1024;

/**
 * The way of control messages to the server and back: the data channel while it is open, else the WebSocket. Messages that
 * are too large for the data channel (a picture as a field) always take the WebSocket.
 *
 * Events: `open` (a better way has opened: send the whole state), `message` (`detail` is the parsed object).
 */
export class ControlChannel extends EventTarget {
  #url = null;
  #socket = null;
  #data = null;
  #limit = 0;
  #timer = 0;
  #backoff = new Backoff();

  get isOpen() {
    return this.#data?.readyState === "open" || this.#socket?.readyState === WebSocket.OPEN;
  }

  /** Opens the WebSocket of a session, and opens it again whenever it is lost. */
  open(url) {
    this.close();
    this.#url = url;
    this.#connect();
  }

  /**
   * Prefers a data channel from the moment that it opens until it closes.
   *
   * @param {RTCDataChannel} data
   * @param {() => number} limit the largest message that the peer takes, in bytes
   */
  adopt(data, limit) {
    data.addEventListener("open", () => {
      this.#data = data;
      this.#limit = limit() - HEADROOM;
      this.dispatchEvent(new Event("open"));
    });
    data.addEventListener("close", () => {
      if (this.#data !== data) return;
      this.#data = null;
      if (this.isOpen) this.dispatchEvent(new Event("open"));
    });
    data.addEventListener("message", (event) => this.#receive(event.data));
  }

  /** @returns {boolean} whether there was a way to send it. */
  send(message) {
    const text = JSON.stringify(message);
    // UTF-8 takes at most three bytes for one UTF-16 unit.
    if (this.#data?.readyState === "open" && text.length * 3 <= this.#limit) {
      this.#data.send(text);
      return true;
    }
    if (this.#socket?.readyState !== WebSocket.OPEN) return false;
    this.#socket.send(text);
    return true;
  }

  close() {
    clearTimeout(this.#timer);
    this.#url = null;
    this.#data = null;
    this.#socket?.close();
    this.#socket = null;
  }

  #connect() {
    const socket = new WebSocket(this.#url);
    this.#socket = socket;
    socket.addEventListener("open", () => {
      this.#backoff.reset();
      if (!this.#data && socket === this.#socket) this.dispatchEvent(new Event("open"));
    });
    socket.addEventListener("message", (event) => this.#receive(event.data));
    socket.addEventListener("close", () => {
      if (socket === this.#socket) this.#timer = setTimeout(() => this.#connect(), this.#backoff.next());
    });
  }

  #receive(text) {
    this.dispatchEvent(new CustomEvent("message", { detail: JSON.parse(text) }));
  }
}
