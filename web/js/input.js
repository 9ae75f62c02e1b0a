/** Edges that one message may carry; of more, the oldest are dropped. */
const MOST_EDGES = 256;
/** A message has at most 64 KiB; a longer text (a picture) travels with the context only. */
const MOST_BYTES = 48_000;

/**
 * What the person's hands are doing: the state that persists, and the edges since the last message.
 *
 * `onChange(urgent)` is called after each change; without `urgent` the change may wait for the next animation frame.
 * Coordinates: `x` and `y` of the pointer run from 0 to 1 over the picture, `dx` and `dy` are CSS pixels; sticks run from
 * -1 to 1, right and down positive, as the axes of a gamepad do.
 */
export class Input {
  #edges = [];
  #edgeSeq = 0;
  #unsent = {};
  #move = null;

  constructor() {
    this.keys = [];
    this.pointer = { buttons: 0, x: 0.5, y: 0.5 };
    this.gamepad = null;
    this.sticks = {};
    /** Fields that were changed since the session's context was given. */
    this.changedFields = {};
    this.onChange = (_urgent) => {};
  }

  /** The key with this `KeyboardEvent.code` went down at `time`: milliseconds of `performance.now()`, as all times here. */
  press(code, time) {
    if (this.keys.includes(code)) return;
    this.keys.push(code);
    this.#edge({ kind: "key_down", code }, time);
  }

  /** The key is up again; nothing happens if it was not held. */
  release(code, time) {
    if (!this.keys.includes(code)) return;
    this.keys = this.keys.filter((held) => held !== code);
    this.#edge({ kind: "key_up", code }, time);
  }

  /** Lets go of everything without edges: the `blur` message says it to the server. */
  releaseAll() {
    this.keys = [];
    this.pointer = { ...this.pointer, buttons: 0 };
    this.gamepad = null;
    for (const name of Object.keys(this.sticks)) this.sticks[name] = [0, 0];
    this.onChange(false);
  }

  /** The pointer is there. */
  place(x, y) {
    this.pointer = { ...this.pointer, x: round(x), y: round(y) };
    this.onChange(false);
  }

  /** The pointer moved; movement is summed up until the next message or the next other edge. */
  move(dx, dy, time) {
    this.#move = { dx: (this.#move?.dx ?? 0) + dx, dy: (this.#move?.dy ?? 0) + dy, time };
    this.onChange(false);
  }

  /** A mouse button changed; `buttons` are all that are down now, as in `MouseEvent.buttons`. */
  button(button, down, buttons, time) {
    this.pointer = { ...this.pointer, buttons };
    this.#edge({ kind: down ? "button_down" : "button_up", button }, time);
  }

  /** The wheel turned, in CSS pixels. */
  wheel(dx, dy, time) {
    this.#edge({ kind: "wheel", dx, dy }, time);
  }

  /** A finger tapped there. */
  tap(x, y, time) {
    this.#edge({ kind: "tap", x: round(x), y: round(y) }, time);
  }

  /** A touch stick is deflected so far. */
  stick(name, x, y) {
    this.sticks[name] = [round(x), round(y)];
    this.onChange(false);
  }

  /** @param {{axes: number[], buttons: number[]} | null} state null when there is none */
  setGamepad(state) {
    this.gamepad = state;
    this.onChange(false);
  }

  /** @returns {boolean} false when the value is too large for a message: it counts from the next reset */
  setField(name, value) {
    this.changedFields[name] = value;
    if (isTooLarge(value)) return false;
    this.#unsent[name] = value;
    this.onChange(true);
    return true;
  }

  /** A context with all fields was given: none differs from it any more. */
  contextGiven() {
    this.changedFields = {};
    this.#unsent = {};
  }

  /** Everything must be said again: there is a new way to the server. */
  repeatFields() {
    this.#unsent = Object.fromEntries(Object.entries(this.changedFields).filter(([, value]) => !isTooLarge(value)));
  }

  /** @returns {object} the state and what waits to be sent; call {@link sent} once it is on its way. */
  snapshot() {
    this.#flushMove();
    const { keys, pointer, gamepad, sticks } = this;
    return { keys: [...keys], pointer, gamepad, sticks: { ...sticks }, fields: this.#unsent, edges: this.#edges };
  }

  /** @param {boolean} delivered edges are of the moment and are dropped if there was no way; fields wait for one. */
  sent(delivered) {
    this.#edges = [];
    if (delivered) this.#unsent = {};
  }

  #edge(edge, time) {
    this.#flushMove();
    this.#keep(edge, time);
    this.onChange(true);
  }

  #flushMove() {
    if (!this.#move) return;
    const { dx, dy, time } = this.#move;
    this.#move = null;
    this.#keep({ kind: "pointer_move", dx, dy }, time);
  }

  #keep(edge, time) {
    this.#edges.push({ seq: this.#edgeSeq++, t: time, ...edge });
    if (this.#edges.length > MOST_EDGES) this.#edges.shift();
  }
}

function isTooLarge(value) {
  return typeof value === "string" && new TextEncoder().encode(value).length > MOST_BYTES;
}

function round(value) {
  return Math.round(value * 1000) / 1000;
}
