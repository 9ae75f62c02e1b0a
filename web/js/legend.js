import { create } from "./dom.js";

/** @type {Record<string, string>} */
const KEY_NAMES = {
  ArrowUp: "↑",
  ArrowDown: "↓",
  ArrowLeft: "←",
  ArrowRight: "→",
  ShiftLeft: "Shift",
  ControlLeft: "Ctrl",
  AltLeft: "Alt",
  MetaLeft: "Meta",
};

/** The keys of the demo: shows which are held, and works as a set of buttons for touch and mouse. */
export class Legend {
  #input;
  #aliases;
  /** @type {Map<string, HTMLElement>} */
  #buttons = new Map();

  /**
   * @param {HTMLElement} element to fill
   * @param {Pick<import("./api.js").ControlsDescription, "keys" | "aliases">} controls
   * @param {import("./input.js").Input} input
   */
  constructor(element, { keys, aliases }, input) {
    this.#input = input;
    this.#aliases = aliases;
    for (const name of new Set(keys.map((key) => key.group ?? ""))) {
      const group = create("div", { className: "keys" });
      group.setAttribute("role", "group");
      group.setAttribute("aria-label", name || "Keys");
      group.append(...keys.filter((key) => (key.group ?? "") === name).map((key) => this.#createButton(key)));
      element.append(group);
    }
  }

  /** Marks the keys that are held now. */
  update() {
    const held = new Set(this.#input.keys.map((code) => this.#aliases[code] ?? code));
    for (const [code, button] of this.#buttons) {
      button.classList.toggle("held", held.has(code));
      button.setAttribute("aria-pressed", String(held.has(code)));
    }
  }

  /** @param {{ code: string, label: string }} key */
  #createButton({ code, label }) {
    const name = create("kbd", { textContent: keyName(code) });
    const button = create("button", { type: "button", className: "key", tabIndex: -1 }, name);
    button.append(create("span", { textContent: label }));
    button.dataset.code = code;
    const aliases = Object.keys(this.#aliases).filter((alias) => this.#aliases[alias] === code);
    if (aliases.length) button.title = `also ${aliases.map(keyName).join(", ")}`;
    button.addEventListener("pointerdown", (event) => {
      event.preventDefault();
      button.setPointerCapture(event.pointerId);
      this.#input.press(code, event.timeStamp);
    });
    for (const type of /** @type {const} */ (["pointerup", "pointercancel"])) {
      button.addEventListener(type, (event) => this.#input.release(code, event.timeStamp));
    }
    this.#buttons.set(code, button);
    return button;
  }
}

/**
 * Returns what a US keyboard shows on the key.
 *
 * @param {string} code
 * @returns {string} such as "W" for "KeyW"
 */
export function keyName(code) {
  return KEY_NAMES[code] ?? code.replace(/^(Key|Digit)/, "");
}
