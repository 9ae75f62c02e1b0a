/** Below this deflection a stick rests, so that a still thumb does not drift. */
const DEAD_ZONE = 0.08;

/** A stick for one thumb on a touch screen. */
export class Stick {
  #input;
  #name;
  #knob = document.createElement("span");
  #pointer = null;

  /**
   * @param {string} name as the demo calls it: "move", "look"
   * @param {import("./input.js").Input} input
   */
  constructor(name, input) {
    this.#name = name;
    this.#input = input;
    this.element = document.createElement("div");
    this.element.className = "stick";
    this.element.dataset.stick = name;
    this.element.setAttribute("role", "img");
    this.element.setAttribute("aria-label", `Touch stick: ${name}`);
    this.#knob.className = "knob";
    this.#knob.textContent = name;
    this.element.append(this.#knob);
    this.#listen();
    input.sticks[name] = [0, 0];
  }

  #listen() {
    this.element.addEventListener("pointerdown", (event) => {
      if (this.#pointer !== null) return;
      this.#pointer = event.pointerId;
      this.element.setPointerCapture(event.pointerId);
      this.element.classList.add("held");
      this.#follow(event);
    });
    this.element.addEventListener("pointermove", (event) => this.#follow(event));
    for (const end of ["pointerup", "pointercancel", "lostpointercapture"]) {
      this.element.addEventListener(end, (event) => this.#letGo(event));
    }
  }

  #follow(event) {
    if (event.pointerId !== this.#pointer) return;
    const box = this.element.getBoundingClientRect();
    const radius = box.width / 2;
    const dx = (event.clientX - box.left - radius) / radius;
    const dy = (event.clientY - box.top - radius) / radius;
    const length = Math.hypot(dx, dy);
    const scale = length < DEAD_ZONE ? 0 : 1 / Math.max(1, length);
    this.#set(dx * scale, dy * scale);
  }

  #letGo(event) {
    if (event.pointerId !== this.#pointer) return;
    this.#pointer = null;
    this.element.classList.remove("held");
    this.#set(0, 0);
  }

  #set(x, y) {
    this.#knob.style.translate = `${x * 60}% ${y * 60}%`;
    this.#input.stick(this.#name, x, y);
  }
}
