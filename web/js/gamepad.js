/** Limits of a controls message. */
const MAX_AXES = 16;
const MAX_BUTTONS = 32;
/** A gamepad is used when a value has changed by more than this. Sticks at rest drift by less. */
const MIN_CHANGE = 0.25;

/** @import { GamepadState } from "./protocol.js" */

/**
 * Polls the gamepads once per animation frame while one is connected, and reports the one that was used last. Some devices
 * are listed as gamepads that are none, often before the real one. Requires HTTPS or localhost.
 */
export class GamepadPoller {
  #input;
  #polling = false;
  /** @type {AbortSignal | undefined} */
  #signal;
  /** @type {number | null} Index of the gamepad that is reported. */
  #used = null;
  /** @type {Map<number, number[]>} Values of each gamepad when it was last used, by its index. */
  #references = new Map();

  /** @param {import("./input.js").Input} input */
  constructor(input) {
    this.#input = input;
  }

  /**
   * Starts to listen.
   *
   * @param {AbortSignal} [signal] ends it
   */
  listen(signal) {
    this.#signal = signal;
    addEventListener("gamepadconnected", () => this.#start(), { signal });
    if (connectedGamepads().length) this.#start();
  }

  #start() {
    if (this.#polling) return;
    this.#polling = true;
    this.#poll();
  }

  #poll() {
    if (this.#signal?.aborted) return;
    const gamepad = this.#select(connectedGamepads());
    this.#report(gamepad && document.hasFocus() ? readGamepad(gamepad) : null);
    this.#polling = Boolean(gamepad);
    if (gamepad) requestAnimationFrame(() => this.#poll());
  }

  /**
   * Returns the gamepad that was used last. Before any is used, that is the first one in the standard mapping, else the
   * first.
   *
   * @param {Gamepad[]} gamepads
   */
  #select(gamepads) {
    const active = gamepads.filter((gamepad) => this.#wasUsed(gamepad));
    const current = gamepads.find(({ index }) => index === this.#used);
    const selected =
      current && (active.length === 0 || active.includes(current))
        ? current
        : (active[0] ?? gamepads.find(({ mapping }) => mapping === "standard") ?? gamepads[0] ?? null);
    this.#used = selected?.index ?? null;
    for (const index of this.#references.keys()) {
      if (!gamepads.some((gamepad) => gamepad.index === index)) this.#references.delete(index);
    }
    return selected;
  }

  /**
   * Whether a gamepad was used since this was last true. Its first values count as those at rest.
   *
   * @param {Gamepad} gamepad
   */
  #wasUsed(gamepad) {
    const { axes, buttons } = readGamepad(gamepad);
    const values = [...axes, ...buttons];
    const reference = this.#references.get(gamepad.index);
    const isUsed = reference?.some((value, at) => Math.abs(value - (values[at] ?? 0)) > MIN_CHANGE) ?? false;
    if (!reference || isUsed) this.#references.set(gamepad.index, values);
    return isUsed;
  }

  /** @param {GamepadState | null} state */
  #report(state) {
    // Losing the focus resets the state of the input.
    if (JSON.stringify(state) !== JSON.stringify(this.#input.gamepad)) this.#input.setGamepad(state);
  }
}

/** @returns {Gamepad[]} */
function connectedGamepads() {
  try {
    return navigator.getGamepads().flatMap((gamepad) => (gamepad?.connected ? [gamepad] : []));
  } catch {
    return []; // not available, or not permitted in this frame
  }
}

/**
 * Returns the state of a gamepad, rounded to hundredths so that noise is not sent. A value that is no number is 0.
 *
 * @param {{ axes: readonly number[], buttons: readonly { value: number }[] }} gamepad
 * @returns {GamepadState}
 */
export function readGamepad({ axes, buttons }) {
  const round = (/** @type {number} */ value) => (Number.isFinite(value) ? Math.round(value * 100) / 100 : 0);
  return {
    axes: axes.slice(0, MAX_AXES).map(round),
    buttons: buttons.slice(0, MAX_BUTTONS).map((button) => round(button.value)),
  };
}
