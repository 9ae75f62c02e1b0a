/** An event with a payload. */
class DetailEvent extends Event {
  /**
   * @param {string} type
   * @param {unknown} detail
   */
  constructor(type, detail) {
    super(type);
    this.detail = detail;
  }
}

/**
 * Typed events. As in `EventTarget`, a listener that throws does not keep the others from being called.
 *
 * @template {Record<string, unknown>} Events payload by event name
 */
export class Emitter {
  #target = new EventTarget();

  /**
   * Calls `listener` with the payload of each event of this type.
   *
   * @template {keyof Events & string} K
   * @param {K} type
   * @param {(detail: Events[K]) => void} listener
   */
  on(type, listener) {
    this.#target.addEventListener(type, (event) => listener(/** @type {any} */ (event).detail));
  }

  /**
   * Calls the listeners of this type.
   *
   * @template {keyof Events & string} K
   * @param {K} type
   * @param {Events[K]} detail
   */
  emit(type, detail) {
    this.#target.dispatchEvent(new DetailEvent(type, detail));
  }
}
