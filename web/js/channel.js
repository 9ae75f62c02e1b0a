import { Emitter } from "./emitter.js";
import { Backoff, Deferred } from "./timing.js";

/** @import { ServerMessage } from "./protocol.js" */

/** Maximum size of a message of a data channel (RFC 8841, section 6.1). */
const MAX_DATA_BYTES = 64 * 1024;
/** More unsent bytes than this mean that the network stalls. */
const MAX_UNSENT_BYTES = 32 * 1024;

/**
 * Carries control messages: over the WebRTC data channel while it is open, else over a WebSocket. The WebSocket stays open
 * beside the data channel, for messages that are too long for that, and so that no message is lost during a switch.
 *
 * Events: `open` (another connection is used from now on: send the whole state), `message`.
 *
 * @extends {Emitter<{ open: null, message: ServerMessage }>}
 */
export class ControlChannel extends Emitter {
  /** @type {WebSocket | null} */
  #socket = null;
  /** @type {RTCDataChannel | null} */
  #data = null;
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  #timer;
  #backoff = new Backoff();
  /** @type {Deferred<null>} */
  #firstOpen = new Deferred();

  constructor() {
    super();
    this.on("open", () => this.#firstOpen.resolve(null));
  }

  /** Resolves once a connection of the current session has been opened. */
  get opened() {
    return this.#firstOpen.promise;
  }

  /**
   * Opens the WebSocket of a session, and reopens it whenever it is lost.
   *
   * @param {URL} url
   */
  open(url) {
    this.close();
    this.#connect(url);
  }

  /**
   * Uses a data channel from when it opens until it closes.
   *
   * @param {RTCDataChannel} data
   */
  adopt(data) {
    data.addEventListener("open", () => {
      this.#data = data;
      this.emit("open", null);
    });
    data.addEventListener("close", () => {
      if (this.#data !== data) return;
      this.#data = null;
      if (this.#openConnection) this.emit("open", null);
    });
    data.addEventListener("message", (event) => this.#onText(event.data));
  }

  /**
   * Sends a message.
   *
   * @param {object} message
   * @returns {boolean} false if no connection is open that can carry it
   */
  send(message) {
    const text = JSON.stringify(message);
    const connection = byteLength(text) > MAX_DATA_BYTES ? this.#openSocket : this.#openConnection;
    connection?.send(text);
    return connection !== null;
  }

  /**
   * Whether the network takes messages more slowly than they are sent. Those that a later one replaces should wait, so that
   * they do not delay it.
   */
  get isCongested() {
    return (this.#openConnection?.bufferedAmount ?? 0) > MAX_UNSENT_BYTES;
  }

  /** Closes the WebSocket. A data channel closes with its peer connection. */
  close() {
    clearTimeout(this.#timer);
    this.#data = null;
    this.#socket?.close();
    this.#socket = null;
    this.#firstOpen = new Deferred();
  }

  get #openConnection() {
    if (this.#data?.readyState === "open") return this.#data;
    return this.#openSocket;
  }

  get #openSocket() {
    return this.#socket?.readyState === WebSocket.OPEN ? this.#socket : null;
  }

  /** @param {URL} url */
  #connect(url) {
    const socket = new WebSocket(url);
    this.#socket = socket;
    socket.addEventListener("open", () => {
      this.#backoff.reset();
      if (!this.#data && socket === this.#socket) this.emit("open", null);
    });
    socket.addEventListener("message", (event) => this.#onText(event.data));
    socket.addEventListener("close", () => {
      if (socket === this.#socket) this.#timer = setTimeout(() => this.#connect(url), this.#backoff.next());
    });
  }

  /** @param {string} text */
  #onText(text) {
    this.emit("message", JSON.parse(text));
  }
}

/**
 * Returns the size of a text in UTF-8.
 *
 * @param {string} text
 */
export function byteLength(text) {
  return new TextEncoder().encode(text).length;
}
