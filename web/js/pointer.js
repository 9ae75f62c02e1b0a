/** A touch that moved less than this, in CSS pixels, and was shorter than TAP_MS is a tap. */
const TAP_PX = 8;
const TAP_MS = 300;
const LINE_PX = 16;

/** Reads mouse, pen and finger over the picture; locks the mouse there if the demo asks for it. */
export class Pointer {
  #stage;
  #input;
  #controls;
  #touch = null;

  /**
   * @param {HTMLElement} stage what the picture lies in
   * @param {import("./input.js").Input} input
   * @param {{pointer: "lock" | "position" | null, wheel: boolean}} controls
   * @param {() => number} aspect width over height of the picture
   */
  constructor(stage, input, controls, aspect) {
    this.#stage = stage;
    this.#input = input;
    this.#controls = controls;
    this.aspect = aspect;
  }

  /** Whether a click captures the mouse. */
  get canLock() {
    return this.#controls.pointer === "lock" && "requestPointerLock" in this.#stage && matchMedia("(pointer: fine)").matches;
  }

  /** Whether the mouse is captured now. */
  get isLocked() {
    return document.pointerLockElement === this.#stage;
  }

  /** Begins to read what the demo asks for. */
  listen() {
    if (this.#controls.wheel) {
      this.#stage.addEventListener("wheel", (event) => this.#wheel(event), { passive: false });
    }
    if (!this.#controls.pointer) return;
    this.#stage.classList.add("takes-pointer");
    this.#stage.addEventListener("pointerdown", (event) => this.#down(event));
    this.#stage.addEventListener("pointermove", (event) => this.#move(event));
    this.#stage.addEventListener("pointerup", (event) => this.#up(event));
    this.#stage.addEventListener("pointercancel", (event) => this.#up(event, false));
    this.#stage.addEventListener("contextmenu", (event) => event.preventDefault());
    document.addEventListener("pointerlockchange", () => this.#stage.classList.toggle("locked", this.isLocked));
  }

  #down(event) {
    if (event.target.closest("button, .stick, .overlay")) return;
    this.#stage.focus({ preventScroll: true });
    if (event.pointerType !== "touch" && this.canLock && !this.isLocked) {
      this.#lock();
      return;
    }
    this.#place(event);
    if (event.pointerType === "touch") {
      const { clientX: x, clientY: y } = event;
      this.#touch = { id: event.pointerId, x, y, startX: x, startY: y, time: event.timeStamp };
    } else {
      this.#input.button(event.button, true, event.buttons, event.timeStamp);
    }
    if (!this.isLocked) this.#stage.setPointerCapture(event.pointerId);
  }

  #move(event) {
    if (event.pointerType === "touch") {
      this.#drag(event);
      return;
    }
    if (!this.isLocked) this.#place(event);
    this.#moreButtons(event);
    if (this.canLock && !this.isLocked) return;
    if (event.movementX || event.movementY) this.#input.move(event.movementX, event.movementY, event.timeStamp);
  }

  /** A second mouse button comes as a move whose `button` is set. */
  #moreButtons(event) {
    if (event.button < 0 || event.buttons === this.#input.pointer.buttons) return;
    const down = event.buttons > this.#input.pointer.buttons;
    this.#input.button(event.button, down, event.buttons, event.timeStamp);
  }

  #drag(event) {
    const touch = this.#touch;
    if (touch?.id !== event.pointerId) return;
    this.#place(event);
    this.#input.move(event.clientX - touch.x, event.clientY - touch.y, event.timeStamp);
    touch.x = event.clientX;
    touch.y = event.clientY;
  }

  #up(event, completed = true) {
    if (event.pointerType !== "touch") {
      if (this.#input.pointer.buttons === 0) return;
      this.#input.button(event.button, false, event.buttons, event.timeStamp);
      return;
    }
    const touch = this.#touch;
    if (touch?.id !== event.pointerId) return;
    this.#touch = null;
    const far = Math.hypot(event.clientX - touch.startX, event.clientY - touch.startY) > TAP_PX;
    if (far || !completed || event.timeStamp - touch.time > TAP_MS) return;
    const { x, y } = this.#position(event);
    this.#input.tap(x, y, event.timeStamp);
  }

  #wheel(event) {
    event.preventDefault();
    const unit = event.deltaMode === WheelEvent.DOM_DELTA_PIXEL ? 1 : LINE_PX;
    this.#input.wheel(event.deltaX * unit, event.deltaY * unit, event.timeStamp);
  }

  async #lock() {
    try {
      await this.#stage.requestPointerLock();
    } catch {
      // Browsers refuse for a second after Esc: the next click works.
      this.#stage.classList.remove("locked");
    }
  }

  #place(event) {
    const { x, y } = this.#position(event);
    this.#input.place(x, y);
  }

  /** Where in the picture, which may be smaller than the stage in full screen. */
  #position(event) {
    const box = this.#stage.getBoundingClientRect();
    const width = Math.min(box.width, box.height * this.aspect());
    const height = width / this.aspect();
    const x = (event.clientX - box.left - (box.width - width) / 2) / width;
    const y = (event.clientY - box.top - (box.height - height) / 2) / height;
    return { x: Math.min(1, Math.max(0, x)), y: Math.min(1, Math.max(0, y)) };
  }
}
