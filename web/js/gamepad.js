/** Limits of a controls message. */
const MAX_AXES = 16;
const MAX_BUTTONS = 32;

/** @import { GamepadState } from "./protocol.js" */

/** Polls the first gamepad once per animation frame while one is connected. Requires HTTPS or localhost. */
export class GamepadPoller {
  #input;
  #last = "null";
  #polling = false;

  /** @param {import("./input.js").Input} input */
  constructor(input) {
    this.#input = input;
  }

  /** Starts to listen. */
  listen() {
    if (!navigator.getGamepads) return;
    addEventListener("gamepadconnected", () => this.#start());
    if (connectedGamepad()) this.#start();
  }

  #start() {
    if (this.#polling) return;
    this.#polling = true;
    this.#poll();
  }

  #poll() {
    const gamepad = connectedGamepad();
    this.#report(gamepad && document.hasFocus() ? readGamepad(gamepad) : null);
    this.#polling = Boolean(gamepad);
    if (gamepad) requestAnimationFrame(() => this.#poll());
  }

  /** @param {GamepadState | null} state */
  #report(state) {
    const text = JSON.stringify(state);
    if (text === this.#last) return;
    this.#last = text;
    this.#input.setGamepad(state);
  }
}

function connectedGamepad() {
  return navigator.getGamepads().find((gamepad) => gamepad?.connected) ?? null;
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
