/** Fakes shared by the tests. */

import { afterEach } from "node:test";

/** @type {(() => void)[]} */
const restorations = [];

afterEach(() => {
  for (const restore of restorations.splice(0).reverse()) restore();
});

/**
 * Replaces a member of an object until the end of the test.
 *
 * @param {object} object such as `globalThis`
 * @param {string} name
 * @param {unknown} value
 */
export function replace(object, name, value) {
  const original = Object.getOwnPropertyDescriptor(object, name);
  Object.defineProperty(object, name, { value, configurable: true, writable: true });
  restorations.push(() => {
    if (original) Object.defineProperty(object, name, original);
    else Reflect.deleteProperty(object, name);
  });
}

/** Replaces the timers, the animation frames and `performance.now` until the end of the test. */
export class FakeTime {
  #nextId = 1;
  /** @type {Map<number, { at: number, interval: number | null, callback: () => void }>} */
  #timers = new Map();

  /** Milliseconds. */
  now = 0;

  constructor() {
    const clear = (/** @type {number | undefined} */ id) => {
      if (id !== undefined) this.#timers.delete(id);
    };
    replace(globalThis, "setTimeout", (/** @type {() => void} */ callback, delay = 0) =>
      this.#add(callback, delay, null),
    );
    replace(globalThis, "setInterval", (/** @type {() => void} */ callback, delay = 0) =>
      this.#add(callback, delay, delay),
    );
    replace(globalThis, "requestAnimationFrame", (/** @type {() => void} */ callback) => this.#add(callback, 16, null));
    for (const name of ["clearTimeout", "clearInterval", "cancelAnimationFrame"]) replace(globalThis, name, clear);
    replace(performance, "now", () => this.now);
  }

  /** Number of pending timers. */
  get pending() {
    return this.#timers.size;
  }

  /**
   * Advances the time, and runs the timers that are due, in their order.
   *
   * @param {number} milliseconds
   */
  advance(milliseconds) {
    const end = this.now + milliseconds;
    for (;;) {
      const due = [...this.#timers].filter(([, { at }]) => at <= end).sort(([, a], [, b]) => a.at - b.at);
      if (!due.length) break;
      const [id, timer] = due[0];
      this.now = timer.at;
      if (timer.interval === null) this.#timers.delete(id);
      else timer.at += timer.interval;
      timer.callback();
    }
    this.now = end;
  }

  /**
   * @param {() => void} callback
   * @param {number} delay
   * @param {number | null} interval
   */
  #add(callback, delay, interval) {
    this.#timers.set(this.#nextId, { at: this.now + delay, interval, callback });
    return this.#nextId++;
  }
}

/**
 * Resolves after all promise callbacks that are pending now.
 *
 * @returns {Promise<void>}
 */
export function settled() {
  return new Promise((resolve) => setImmediate(resolve));
}

/**
 * Replaces `fetch` until the end of the test.
 *
 * @param {(request: { method: string, path: string, headers: Record<string, string>, body: string | undefined }) => Response} respond
 */
export function fakeFetch(respond) {
  replace(globalThis, "document", { baseURI: "http://host.example/", querySelector: () => null, hidden: false });
  replace(globalThis, "fetch", async (/** @type {URL} */ url, /** @type {any} */ { method, headers, body, signal }) => {
    if (signal?.aborted) throw new DOMException("aborted", "AbortError");
    return respond({ method, path: new URL(url).pathname, headers, body });
  });
}

/**
 * @param {number} status
 * @param {unknown} body
 * @param {Record<string, string>} [headers]
 */
export function jsonResponse(status, body, headers = {}) {
  return new Response(JSON.stringify(body), { status, headers });
}
