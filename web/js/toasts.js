const LIFE_MS = 6000;

/** Short messages that go away by themselves; one that is shown already is not shown twice. */
export class Toasts {
  #element;

  /** @param {HTMLElement} element a live region */
  constructor(element) {
    this.#element = element;
  }

  /** @param {string} text a sentence for the person */
  show(text) {
    const shown = [...this.#element.children].some((toast) => toast.firstChild.textContent === text);
    if (!shown) this.#add(text);
  }

  #add(text) {
    const toast = document.createElement("div");
    toast.className = "toast";
    const sentence = document.createElement("span");
    sentence.textContent = text;
    const close = document.createElement("button");
    close.type = "button";
    close.textContent = "×";
    close.setAttribute("aria-label", "Dismiss");
    close.addEventListener("click", () => toast.remove());
    toast.append(sentence, close);
    this.#element.append(toast);
    setTimeout(() => toast.remove(), LIFE_MS);
  }
}
