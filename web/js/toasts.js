import { create } from "./dom.js";

const LIFETIME_MS = 6000;

/** Short messages that disappear after a few seconds. A message that is visible already is not repeated. */
export class Toasts {
  #element;
  /** @type {Set<string>} */
  #visible = new Set();

  /** @param {HTMLElement} element live region */
  constructor(element) {
    this.#element = element;
  }

  /** @param {string} text */
  show(text) {
    if (this.#visible.has(text)) return;
    this.#visible.add(text);
    const close = create("button", { type: "button", textContent: "×" });
    close.setAttribute("aria-label", "Dismiss");
    const toast = create("div", { className: "toast" }, create("span", { textContent: text }), close);
    const remove = () => {
      clearTimeout(timer);
      toast.remove();
      this.#visible.delete(text);
    };
    const timer = setTimeout(remove, LIFETIME_MS);
    close.addEventListener("click", remove);
    this.#element.append(toast);
  }
}
