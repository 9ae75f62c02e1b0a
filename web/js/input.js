import { byteLength } from "./channel.js";

/** @import { Edge, EdgeBody, GamepadState, InputState, PointerState } from "./protocol.js" */

/** Maximum number of edges in a message; beyond it, the oldest are dropped. */
const MAX_EDGES = 256;
/** Maximum number of held keys in a message; beyond it, the oldest are left out. */
const MAX_KEYS = 32;
/** Maximum movement of an edge, in CSS pixels. */
const MAX_DELTA = 100_000;
/** Maximum size of the fields that are sent together with the devices. Longer ones are sent on their own. */
const MAX_FIELDS_BYTES = 16 * 1024;
/** A message has at most 640 KiB. A longer value, such as an image, is sent with the context of a reset only. */
const MAX_VALUE_BYTES = 639 * 1024;

/**
 * State of the input devices and the form, and the edges since the last message.
 *
 * Pointer positions run from 0 to 1 over the video; pointer movement is in CSS pixels; sticks run from -1 to 1, right and
 * down positive. Times are milliseconds of `performance.now()`.
 */
export class Input {
  /** @type {Edge[]} */
  #edges = [];
  #edgeSeq;
  /** @type {Record<string, unknown>} */
  #unsentFields = {};
  /** @type {{ dx: number, dy: number, time: number } | null} */
  #move = null;

  /** @type {string[]} Codes of the held keys, in the order of pressing. */
  keys = [];
  /** @type {PointerState} */
  pointer = { buttons: 0, x: 0.5, y: 0.5 };
  /** @type {GamepadState | null} */
  gamepad = null;
  /** @type {Record<string, [number, number]>} */
  sticks = {};
  /** @type {Record<string, unknown>} Fields that differ from the context of the session. */
  changedFields = {};
  /** @type {(urgent: boolean) => void} Called after each change; one that is not urgent may wait for the next frame. */
  onChange = () => {};

  /** @param {number} firstEdgeSeq number of the first edge */
  constructor(firstEdgeSeq = 0) {
    this.#edgeSeq = firstEdgeSeq;
  }

  /**
   * Presses a key.
   *
   * @param {string} code
   * @param {number} time
   */
  press(code, time) {
    if (this.keys.includes(code)) return;
    this.keys.push(code);
    this.#addEdge({ kind: "key_down", code }, time);
  }

  /**
   * Releases a key, if it is held.
   *
   * @param {string} code
   * @param {number} time
   */
  release(code, time) {
    if (!this.keys.includes(code)) return;
    this.keys = this.keys.filter((held) => held !== code);
    this.#addEdge({ kind: "key_up", code }, time);
  }

  /** Releases everything without edges: the server adds them when it receives the `blur` message. */
  releaseAll() {
    this.keys = [];
    this.pointer = { ...this.pointer, buttons: 0 };
    this.gamepad = null;
    for (const name of Object.keys(this.sticks)) this.sticks[name] = [0, 0];
    this.onChange(false);
  }

  /**
   * Sets the position of the pointer.
   *
   * @param {number} x
   * @param {number} y
   */
  setPointer(x, y) {
    if (!areFinite(x, y)) return;
    this.pointer = { ...this.pointer, x: round(x), y: round(y) };
    this.onChange(false);
  }

  /**
   * Adds pointer movement, which is summed up until the next message or the next edge of another kind.
   *
   * @param {number} dx
   * @param {number} dy
   * @param {number} time
   */
  movePointer(dx, dy, time) {
    if (!areFinite(dx, dy)) return;
    this.#move = { dx: clampDelta((this.#move?.dx ?? 0) + dx), dy: clampDelta((this.#move?.dy ?? 0) + dy), time };
    this.onChange(false);
  }

  /**
   * Presses or releases a mouse button.
   *
   * @param {number} button as in `MouseEvent.button`
   * @param {boolean} down
   * @param {number} buttons all that are held now, as in `MouseEvent.buttons`
   * @param {number} time
   */
  setButton(button, down, buttons, time) {
    this.pointer = { ...this.pointer, buttons };
    this.#addEdge({ kind: down ? "button_down" : "button_up", button }, time);
  }

  /**
   * Adds wheel movement.
   *
   * @param {number} dx CSS pixels
   * @param {number} dy CSS pixels
   * @param {number} time
   */
  wheel(dx, dy, time) {
    if (areFinite(dx, dy)) this.#addEdge({ kind: "wheel", dx: clampDelta(dx), dy: clampDelta(dy) }, time);
  }

  /**
   * Adds a tap.
   *
   * @param {number} x
   * @param {number} y
   * @param {number} time
   */
  tap(x, y, time) {
    if (areFinite(x, y)) this.#addEdge({ kind: "tap", x: round(x), y: round(y) }, time);
  }

  /**
   * Adds a touch stick at rest.
   *
   * @param {string} name
   */
  addStick(name) {
    this.sticks[name] = [0, 0];
  }

  /**
   * Sets the deflection of a touch stick.
   *
   * @param {string} name
   * @param {number} x
   * @param {number} y
   */
  setStick(name, x, y) {
    if (!areFinite(x, y)) return;
    this.sticks[name] = [round(x), round(y)];
    this.onChange(false);
  }

  /** @param {GamepadState | null} state null without a gamepad */
  setGamepad(state) {
    this.gamepad = state;
    this.onChange(false);
  }

  /**
   * Sets a field.
   *
   * @param {string} name
   * @param {unknown} value
   * @returns {boolean} false if the value is too large for a message: it takes effect at the next reset
   */
  setField(name, value) {
    this.changedFields[name] = value;
    if (isTooLarge(value)) return false;
    this.#unsentFields[name] = value;
    this.onChange(true);
    return true;
  }

  /** Call when the session has received all fields as its context. */
  clearChangedFields() {
    this.changedFields = {};
    this.#unsentFields = {};
  }

  /** Sends all changed fields again with the next message, which travels over a new connection. */
  resendFields() {
    this.#unsentFields = Object.fromEntries(
      Object.entries(this.changedFields).filter(([, value]) => !isTooLarge(value)),
    );
  }

  /**
   * Returns the state and the unsent edges and fields. Call {@link onSent} when it has been sent.
   *
   * @returns {InputState}
   */
  snapshot() {
    this.#flushMove();
    const { keys, pointer, gamepad, sticks } = this;
    const fields = this.#shortFields();
    return { keys: keys.slice(-MAX_KEYS), pointer, gamepad, sticks: { ...sticks }, fields, edges: this.#edges };
  }

  /**
   * Drops what the snapshot contained. Edges describe a moment and are dropped in either case; fields that were not
   * delivered stay unsent.
   *
   * @param {boolean} delivered whether there was an open connection
   */
  onSent(delivered) {
    this.#edges = [];
    if (delivered) for (const name of Object.keys(this.#shortFields())) this.onFieldSent(name);
  }

  /** @returns {[name: string, value: unknown][]} unsent fields, each of which takes a message of its own */
  get longFields() {
    const short = this.#shortFields();
    return Object.entries(this.#unsentFields).filter(([name]) => !(name in short));
  }

  /**
   * Call when a field was sent.
   *
   * @param {string} name
   */
  onFieldSent(name) {
    delete this.#unsentFields[name];
  }

  /** Unsent fields that fit into a message with the devices. */
  #shortFields() {
    let room = MAX_FIELDS_BYTES;
    const entries = Object.entries(this.#unsentFields).filter(([name, value]) => {
      const size = sizeOf(name) + sizeOf(value);
      if (size > room) return false;
      room -= size;
      return true;
    });
    return Object.fromEntries(entries);
  }

  /**
   * @param {EdgeBody} edge
   * @param {number} time
   */
  #addEdge(edge, time) {
    this.#flushMove();
    this.#push(edge, time);
    this.onChange(true);
  }

  #flushMove() {
    if (!this.#move) return;
    const { dx, dy, time } = this.#move;
    this.#move = null;
    this.#push({ kind: "pointer_move", dx, dy }, time);
  }

  /**
   * @param {EdgeBody} edge
   * @param {number} time
   */
  #push(edge, time) {
    this.#edges.push({ seq: this.#edgeSeq++, t: time, ...edge });
    if (this.#edges.length > MAX_EDGES) this.#edges.shift();
  }
}

/** @param {unknown} value */
function isTooLarge(value) {
  return sizeOf(value) > MAX_VALUE_BYTES;
}

/**
 * Returns the size of a value in a message.
 *
 * @param {unknown} value
 */
function sizeOf(value) {
  return byteLength(JSON.stringify(value) ?? "");
}

/**
 * Whether all are numbers that JSON can hold. Browsers report movement of some devices as NaN or undefined.
 *
 * @param {number[]} values
 */
function areFinite(...values) {
  return values.every(Number.isFinite);
}

/** @param {number} value */
function clampDelta(value) {
  return Math.min(MAX_DELTA, Math.max(-MAX_DELTA, value));
}

/** @param {number} value */
function round(value) {
  return Math.round(value * 1000) / 1000;
}
