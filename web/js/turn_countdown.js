/** Shows how long the user's turn still lasts, while others wait. */
export class TurnCountdown {
  #element;
  #end = 0;
  #isIdle = false;
  /** @type {ReturnType<typeof setInterval> | undefined} */
  #timer;

  /** @param {HTMLElement} element */
  constructor(element) {
    this.#element = element;
  }

  /**
   * Starts or ends the countdown.
   *
   * @param {number | null} seconds until the turn ends, null if it has no end
   * @param {boolean} isIdle whether it ends for want of input
   */
  set(seconds, isIdle = false) {
    this.#isIdle = isIdle;
    clearInterval(this.#timer);
    this.#element.hidden = seconds === null;
    if (seconds === null) return;
    this.#end = performance.now() + seconds * 1000;
    this.#timer = setInterval(() => this.#show(), 500);
    this.#show();
  }

  #show() {
    const seconds = Math.max(0, Math.ceil((this.#end - performance.now()) / 1000));
    const time = seconds < 60 ? `${seconds} s` : `${Math.floor(seconds / 60)}:${String(seconds % 60).padStart(2, "0")}`;
    this.#element.textContent = this.#isIdle
      ? `Others are waiting. Your session ends in ${time} without input.`
      : `Others are waiting. Your turn ends in ${time}.`;
  }
}
