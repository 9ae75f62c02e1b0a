/** What a message may carry. */
const MOST_AXES = 16;
const MOST_BUTTONS = 32;

/** Polls the first gamepad once per animation frame while one is connected. Needs HTTPS or localhost. */
export class GamepadPoller {
  #input;
  #last = "null";
  #polling = false;

  /** @param {import("./input.js").Input} input */
  constructor(input) {
    this.#input = input;
  }

  /** Begins to read. */
  listen() {
    if (!navigator.getGamepads) return;
    addEventListener("gamepadconnected", () => this.#start());
    if (connected()) this.#start();
  }

  #start() {
    if (this.#polling) return;
    this.#polling = true;
    this.#poll();
  }

  #poll() {
    const pad = connected();
    this.#report(pad && document.hasFocus() ? read(pad) : null);
    this.#polling = Boolean(pad);
    if (pad) requestAnimationFrame(() => this.#poll());
  }

  #report(state) {
    const text = JSON.stringify(state);
    if (text === this.#last) return;
    this.#last = text;
    this.#input.setGamepad(state);
  }
}

function connected() {
  return navigator.getGamepads().find((pad) => pad?.connected) ?? null;
}

function read(pad) {
  const hundredths = (value) => Math.round(value * 100) / 100;
  const buttons = pad.buttons.slice(0, MOST_BUTTONS).map((button) => hundredths(button.value));
  return { axes: pad.axes.slice(0, MOST_AXES).map(hundredths), buttons };
}
