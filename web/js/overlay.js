import { byId } from "./dom.js";

/** Covers the video with a title, a text, a progress bar and one button. */
export class Overlay {
  #element;
  #title;
  #text;
  #progress;
  #button;

  /** @param {Document | ShadowRoot} root contains the elements */
  constructor(root = document) {
    this.#element = byId("overlay", HTMLElement, root);
    this.#title = byId("overlay-title", HTMLElement, root);
    this.#text = byId("overlay-text", HTMLElement, root);
    this.#progress = byId("overlay-progress", HTMLProgressElement, root);
    this.#button = byId("overlay-button", HTMLButtonElement, root);
  }

  /**
   * Shows the overlay.
   *
   * @param {string} title
   * @param {object} [options]
   * @param {string} [options.text]
   * @param {number | null} [options.progress] 0 to 1; null if unknown; omit it for no progress bar
   * @param {string} [options.button] label
   * @param {() => void} [options.onClick]
   * @param {boolean} [options.translucent] whether the video shows through
   */
  show(title, { text = "", progress, button = "", onClick, translucent = false } = {}) {
    this.#element.hidden = false;
    this.#element.classList.toggle("translucent", translucent);
    this.#title.textContent = title;
    this.#text.textContent = text;
    this.#progress.hidden = progress === undefined;
    if (typeof progress === "number") this.#progress.value = progress;
    else this.#progress.removeAttribute("value");
    this.#button.hidden = !button;
    this.#button.textContent = button;
    this.#button.onclick = onClick ?? null;
  }

  /** Shows the video. */
  hide() {
    this.#element.hidden = true;
  }
}
