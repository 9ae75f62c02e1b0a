/** How long the video continues to show the last frame before a failure of the model covers it. */
const DELAY_MS = 1000;

/** The failure of the model since which no frame was shown: covers the video with its cause for as long as it lasts. */
export class ModelFailure {
  #overlay;
  /** @type {{ text: string, time: number } | null} */
  #failure = null;

  /** @param {import("./overlay.js").Overlay} overlay */
  constructor(overlay) {
    this.#overlay = overlay;
  }

  /** @param {string} text */
  set(text) {
    this.#failure = { text, time: this.#failure?.time ?? performance.now() };
  }

  /** @returns {boolean} whether there was one */
  clear() {
    const isSet = this.#failure !== null;
    this.#failure = null;
    return isSet;
  }

  /**
   * Covers the video if there is a failure.
   *
   * @param {boolean} isLive whether the video has been shown before, so that a frame may follow at once
   * @param {boolean} translucent
   */
  show(isLive, translucent) {
    if (!this.#failure || (isLive && performance.now() - this.#failure.time < DELAY_MS)) return;
    const text = `${this.#failure.text.replace(/\.$/, "")}. No picture has arrived since. See the server log for details.`;
    this.#overlay.show("The model has failed", { text, translucent });
  }
}
