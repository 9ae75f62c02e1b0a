import { create } from "./dom.js";

/** Deflections below this count as the center, so that a thumb at rest does not drift. */
const DEAD_ZONE = 0.08;
/** How far the knob moves at full deflection, in percent of its own size. */
const KNOB_TRAVEL = 60;

/**
 * Returns the deflection of a stick, limited to the unit circle.
 *
 * @param {number} dx distance from the center to the right, in radii
 * @param {number} dy distance from the center downwards, in radii
 * @returns {[number, number]} each -1 to 1
 */
export function deflection(dx, dy) {
  const length = Math.hypot(dx, dy);
  if (length < DEAD_ZONE) return [0, 0];
  const scale = 1 / Math.max(1, length);
  return [dx * scale, dy * scale];
}

/** An on-screen stick for touch screens. */
export class Stick {
  #input;
  #name;
  #knob;
  /** @type {number | null} */
  #pointer = null;

  /**
   * @param {string} name as declared by the demo, such as "move" or "look"
   * @param {import("./input.js").Input} input
   */
  constructor(name, input) {
    this.#name = name;
    this.#input = input;
    this.#knob = create("span", { className: "knob", textContent: name });
    this.element = create("div", { className: "stick" }, this.#knob);
    this.element.dataset.stick = name;
    this.element.setAttribute("role", "img");
    this.element.setAttribute("aria-label", `Touch stick: ${name}`);
    this.#listen();
    input.addStick(name);
  }

  #listen() {
    this.element.addEventListener("pointerdown", (event) => this.#press(event));
    this.element.addEventListener("pointermove", (event) => this.#follow(event));
    for (const type of /** @type {const} */ (["pointerup", "pointercancel", "lostpointercapture"])) {
      this.element.addEventListener(type, (event) => this.#release(event));
    }
  }

  /** @param {PointerEvent} event */
  #press(event) {
    if (this.#pointer !== null) return;
    this.#pointer = event.pointerId;
    this.element.setPointerCapture(event.pointerId);
    this.element.classList.add("held");
    this.#follow(event);
  }

  /** @param {PointerEvent} event */
  #follow(event) {
    if (event.pointerId !== this.#pointer) return;
    const box = this.element.getBoundingClientRect();
    const radius = box.width / 2;
    this.#set(...deflection((event.clientX - box.left) / radius - 1, (event.clientY - box.top) / radius - 1));
  }

  /** @param {PointerEvent} event */
  #release(event) {
    if (event.pointerId !== this.#pointer) return;
    this.#pointer = null;
    this.element.classList.remove("held");
    this.#set(0, 0);
  }

  /**
   * @param {number} x
   * @param {number} y
   */
  #set(x, y) {
    this.#knob.style.translate = `${x * KNOB_TRAVEL}% ${y * KNOB_TRAVEL}%`;
    this.#input.setStick(this.#name, x, y);
  }
}
