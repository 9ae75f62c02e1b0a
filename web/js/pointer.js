/** A touch that moves less than this, in CSS pixels, and is shorter than TAP_MS is a tap. */
const TAP_PX = 8;
const TAP_MS = 300;
/** Height of a line, for browsers that report wheel movement in lines. */
const LINE_PX = 16;

/** @typedef {{ id: number, x: number, y: number, startX: number, startY: number, time: number }} Touch */

/** Reads mouse, pen and touch input over the video, with pointer lock if the demo asks for it. */
export class Pointer {
  #stage;
  #input;
  #controls;
  #aspect;
  /** @type {Touch | null} */
  #touch = null;

  /**
   * @param {HTMLElement} stage element that contains the video
   * @param {import("./input.js").Input} input
   * @param {Pick<import("./api.js").ControlsDescription, "pointer" | "wheel">} controls
   * @param {number} aspect width of the video over its height
   */
  constructor(stage, input, controls, aspect) {
    this.#stage = stage;
    this.#input = input;
    this.#controls = controls;
    this.#aspect = aspect;
  }

  /** Whether a click captures the mouse. */
  get canLock() {
    const isWanted = this.#controls.pointer === "lock";
    return isWanted && "requestPointerLock" in this.#stage && matchMedia("(pointer: fine)").matches;
  }

  /** Whether the mouse is captured. */
  get isLocked() {
    return document.pointerLockElement === this.#stage;
  }

  /** Starts to listen to what the demo reads. */
  listen() {
    if (this.#controls.wheel) {
      this.#stage.addEventListener("wheel", (event) => this.#onWheel(event), { passive: false });
    }
    if (!this.#controls.pointer) return;
    this.#stage.classList.add("takes-pointer");
    this.#stage.addEventListener("pointerdown", (event) => this.#onDown(event));
    this.#stage.addEventListener("pointermove", (event) => this.#onMove(event));
    this.#stage.addEventListener("pointerup", (event) => this.#onUp(event, true));
    this.#stage.addEventListener("pointercancel", (event) => this.#onUp(event, false));
    this.#stage.addEventListener("contextmenu", (event) => event.preventDefault());
    document.addEventListener("pointerlockchange", () => this.#stage.classList.toggle("locked", this.isLocked));
  }

  /** @param {PointerEvent} event */
  #onDown(event) {
    if (event.target instanceof Element && event.target.closest("button, .stick, .overlay")) return;
    this.#stage.focus({ preventScroll: true });
    if (event.pointerType !== "touch" && this.canLock && !this.isLocked) {
      this.#lock();
      return;
    }
    this.#setPosition(event);
    if (event.pointerType === "touch") {
      const { clientX: x, clientY: y } = event;
      this.#touch = { id: event.pointerId, x, y, startX: x, startY: y, time: event.timeStamp };
    } else {
      this.#input.setButton(event.button, true, event.buttons, event.timeStamp);
    }
    if (!this.isLocked) this.#stage.setPointerCapture(event.pointerId);
  }

  /** @param {PointerEvent} event */
  #onMove(event) {
    if (event.pointerType === "touch") {
      this.#drag(event);
      return;
    }
    if (!this.isLocked) this.#setPosition(event);
    this.#onChordedButton(event);
    if (this.canLock && !this.isLocked) return;
    if (event.movementX || event.movementY) this.#input.movePointer(event.movementX, event.movementY, event.timeStamp);
  }

  /**
   * Handles a further mouse button, which is reported as a move whose `button` is set (Pointer Events, "chorded buttons").
   *
   * @param {PointerEvent} event
   */
  #onChordedButton(event) {
    if (event.button < 0 || event.buttons === this.#input.pointer.buttons) return;
    const down = event.buttons > this.#input.pointer.buttons;
    this.#input.setButton(event.button, down, event.buttons, event.timeStamp);
  }

  /** @param {PointerEvent} event */
  #drag(event) {
    const touch = this.#touch;
    if (touch?.id !== event.pointerId) return;
    this.#setPosition(event);
    this.#input.movePointer(event.clientX - touch.x, event.clientY - touch.y, event.timeStamp);
    touch.x = event.clientX;
    touch.y = event.clientY;
  }

  /**
   * @param {PointerEvent} event
   * @param {boolean} completed false if the browser took the pointer over, to scroll for example
   */
  #onUp(event, completed) {
    if (event.pointerType !== "touch") {
      if (this.#input.pointer.buttons === 0) return;
      this.#input.setButton(event.button, false, event.buttons, event.timeStamp);
      return;
    }
    const touch = this.#touch;
    if (touch?.id !== event.pointerId) return;
    this.#touch = null;
    const moved = Math.hypot(event.clientX - touch.startX, event.clientY - touch.startY) > TAP_PX;
    if (moved || !completed || event.timeStamp - touch.time > TAP_MS) return;
    const { x, y } = this.#position(event);
    this.#input.tap(x, y, event.timeStamp);
  }

  /** @param {WheelEvent} event */
  #onWheel(event) {
    event.preventDefault();
    const unit = event.deltaMode === WheelEvent.DOM_DELTA_PIXEL ? 1 : LINE_PX;
    this.#input.wheel(event.deltaX * unit, event.deltaY * unit, event.timeStamp);
  }

  async #lock() {
    try {
      await this.#stage.requestPointerLock();
    } catch {
      // Browsers refuse pointer lock for about a second after Esc: the next click works.
      this.#stage.classList.remove("locked");
    }
  }

  /** @param {PointerEvent} event */
  #setPosition(event) {
    const { x, y } = this.#position(event);
    this.#input.setPointer(x, y);
  }

  /**
   * Returns the position over the video, which may be smaller than the stage in full screen.
   *
   * @param {PointerEvent} event
   */
  #position(event) {
    return positionIn(this.#stage.getBoundingClientRect(), this.#aspect, event.clientX, event.clientY);
  }
}

/**
 * Returns the position of a point over a video that is centered in a box and fills it (`object-fit: contain`).
 *
 * @param {{ left: number, top: number, width: number, height: number }} box
 * @param {number} aspect width of the video over its height
 * @param {number} clientX
 * @param {number} clientY
 * @returns {{ x: number, y: number }} each 0 to 1
 */
export function positionIn(box, aspect, clientX, clientY) {
  const width = Math.min(box.width, box.height * aspect);
  const height = width / aspect;
  const x = (clientX - box.left - (box.width - width) / 2) / width;
  const y = (clientY - box.top - (box.height - height) / 2) / height;
  return { x: Math.min(1, Math.max(0, x)), y: Math.min(1, Math.max(0, y)) };
}
