/** Polls the first gamepad once per animation frame while one is connected. Needs HTTPS or localhost. */
export class GamepadPoller {
  #input;
  #last = "null";
  #polling = false;

  /** @param {import("./input.js").Input} input */
  constructor(input) {
    this.#input = input;
  }

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
  return { axes: pad.axes.map(hundredths), buttons: pad.buttons.map((button) => hundredths(button.value)) };
}
