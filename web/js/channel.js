import { Backoff } from "./timing.js";

/**
 * The way of control messages to the server and back: the data channel while it is open, else the WebSocket, which stays
 * open beside it so that nothing is lost in between.
 *
 * Events: `open` (a better way has opened: send the whole state), `message` (`detail` is the parsed object).
 */
export class ControlChannel extends EventTarget {
  #url = null;
  #socket = null;
  #data = null;
  #timer = 0;
  #backoff = new Backoff();

  /** Whether a message would find a way. */
  get isOpen() {
    return this.#data?.readyState === "open" || this.#socket?.readyState === WebSocket.OPEN;
  }

  /** Opens the WebSocket of a session, and opens it again whenever it is lost. */
  open(url) {
    this.close();
    this.#url = url;
    this.#connect();
  }

  /** Prefers a data channel from the moment that it opens until it closes. */
  adopt(data) {
    data.addEventListener("open", () => {
      this.#data = data;
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
    if (this.#data?.readyState === "open") {
      this.#data.send(text);
      return true;
    }
    if (this.#socket?.readyState !== WebSocket.OPEN) return false;
    this.#socket.send(text);
    return true;
  }

  /** Ends the WebSocket; a data channel ends with its connection. */
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
