/** Waiting: sleeps that can be cut short, and growing pauses between attempts. */

/**
 * @param {number} milliseconds
 * @param {AbortSignal} signal ends the sleep early, with an AbortError
 */
export function sleep(milliseconds, signal) {
  return new Promise((resolve, reject) => {
    const abort = () => {
      clearTimeout(timer);
      reject(new DOMException("The wait was ended", "AbortError"));
    };
    const timer = setTimeout(() => {
      signal.removeEventListener("abort", abort);
      resolve();
    }, milliseconds);
    if (signal.aborted) abort();
    else signal.addEventListener("abort", abort, { once: true });
  });
}

/** Resolves once the page is in sight. */
export function visible() {
  if (!document.hidden) return Promise.resolve();
  return new Promise((resolve) => {
    document.addEventListener("visibilitychange", function seen() {
      if (document.hidden) return;
      document.removeEventListener("visibilitychange", seen);
      resolve();
    });
  });
}

/** Pauses that double from `first` to `last` milliseconds, shortened by chance so that viewers do not come back at once. */
export class Backoff {
  #attempt = 0;

  constructor(first = 500, last = 10_000) {
    this.first = first;
    this.last = last;
  }

  /** @returns {number} milliseconds to wait before the next attempt */
  next() {
    const whole = Math.min(this.last, this.first * 2 ** this.#attempt++);
    return whole * (0.75 + Math.random() / 4);
  }

  /** An attempt succeeded: start small again. */
  reset() {
    this.#attempt = 0;
  }
}
