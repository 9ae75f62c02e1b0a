/** What lies over the picture while there is none: a title, a sentence, progress, one button. */
export class Overlay {
  /** @param {(id: string) => HTMLElement} find looks up an element of the page */
  constructor(find) {
    this.element = find("overlay");
    this.title = find("overlay-title");
    this.text = find("overlay-text");
    this.progress = find("overlay-progress");
    this.button = find("overlay-button");
  }

  /**
   * @param {string} title
   * @param {{text?: string, progress?: number | null, button?: string, onClick?: () => void, soft?: boolean}} options
   *   progress: share from 0 to 1, `null` when it is not known, absent when there is none; soft: the picture shines through
   */
  show(title, { text = "", progress, button = "", onClick, soft = false } = {}) {
    this.element.hidden = false;
    this.element.classList.toggle("soft", soft);
    this.title.textContent = title;
    this.text.textContent = text;
    this.progress.hidden = progress === undefined;
    if (typeof progress === "number") this.progress.value = progress;
    else this.progress.removeAttribute("value");
    this.button.hidden = !button;
    this.button.textContent = button;
    this.button.onclick = onClick;
  }

  /** Lets the picture be seen. */
  hide() {
    this.element.hidden = true;
  }
}
