/** Waiting: interruptible sleeps, deadlines, and growing delays between attempts. */

/**
 * Resolves after the given time.
 *
 * @param {number} milliseconds
 * @param {AbortSignal} signal rejects the promise with an `AbortError`
 * @returns {Promise<void>}
 */
export function sleep(milliseconds, signal) {
  return new Promise((resolve, reject) => {
    const abort = () => {
      clearTimeout(timer);
      reject(new DOMException("The wait was aborted", "AbortError"));
    };
    const timer = setTimeout(() => {
      signal.removeEventListener("abort", abort);
      resolve();
    }, milliseconds);
    if (signal.aborted) abort();
    else signal.addEventListener("abort", abort, { once: true });
  });
}

/**
 * Resolves when the page is visible.
 *
 * @returns {Promise<void>}
 */
export function visible() {
  if (!document.hidden) return Promise.resolve();
  return new Promise((resolve) => {
    document.addEventListener("visibilitychange", function onChange() {
      if (document.hidden) return;
      document.removeEventListener("visibilitychange", onChange);
      resolve();
    });
  });
}

/**
 * A promise with its resolving functions. As of any promise, only the first call counts.
 *
 * @template T
 */
export class Deferred {
  /** @type {(value: T) => void} */
  resolve = () => {};
  /** @type {(reason: unknown) => void} */
  reject = () => {};
  /** @type {Promise<T>} */
  promise = new Promise((resolve, reject) => {
    this.resolve = resolve;
    this.reject = reject;
  });
}

/** A timeout whose length and meaning change as an operation proceeds. */
export class Deadline {
  #onExpired;
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  #timer;

  /** @param {(error: Error) => void} onExpired receives the message of the last call to {@link set} */
  constructor(onExpired) {
    this.#onExpired = onExpired;
  }

  /**
   * Replaces the current timeout.
   *
   * @param {number} milliseconds from now
   * @param {string} message of the error
   */
  set(milliseconds, message) {
    this.clear();
    this.#timer = setTimeout(() => this.#onExpired(new Error(message)), milliseconds);
  }

  /** Cancels the timeout. */
  clear() {
    clearTimeout(this.#timer);
  }
}

/**
 * Delays that double with each attempt (exponential backoff). Up to a quarter is taken off at random, so that clients do
 * not retry in lockstep.
 */
export class Backoff {
  #attempt = 0;
  #first;
  #max;

  /**
   * @param {number} first milliseconds
   * @param {number} max milliseconds
   */
  constructor(first = 500, max = 10_000) {
    this.#first = first;
    this.#max = max;
  }

  /** @returns {number} milliseconds to wait before the next attempt */
  next() {
    const delay = Math.min(this.#max, this.#first * 2 ** this.#attempt++);
    return delay * (0.75 + Math.random() / 4);
  }

  /** Starts again with the first delay, after an attempt that succeeded. */
  reset() {
    this.#attempt = 0;
  }
}
