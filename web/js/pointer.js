/** A touch that moves less than this, in CSS pixels, and is shorter than TAP_MS is a tap. */
const TAP_PX = 8;
const TAP_MS = 300;
/** Height of a line, for browsers that report wheel movement in lines. */
const LINE_PX = 16;
/** Highest number of a button that a controls message may name, as in `MouseEvent.button`, and the bits of all. */
const MAX_BUTTON = 4;
const BUTTON_BITS = 2 ** (MAX_BUTTON + 1) - 1;

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
   * @param {() => number | null} aspect width of the video over its height, null while it is unknown
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
    const root = this.#stage.getRootNode(); // a shadow root has a `pointerLockElement` of its own
    return (root instanceof ShadowRoot ? root : document).pointerLockElement === this.#stage;
  }

  /**
   * Starts to listen to what the demo reads.
   *
   * @param {AbortSignal} [signal] ends it
   */
  listen(signal) {
    if (this.#controls.wheel) {
      this.#stage.addEventListener("wheel", (event) => this.#onWheel(event), { passive: false, signal });
    }
    if (!this.#controls.pointer) return;
    this.#stage.classList.add("takes-pointer");
    this.#stage.addEventListener("pointerdown", (event) => this.#onDown(event), { signal });
    this.#stage.addEventListener("pointermove", (event) => this.#onMove(event), { signal });
    this.#stage.addEventListener("pointerup", (event) => this.#onUp(event, true), { signal });
    this.#stage.addEventListener("pointercancel", (event) => this.#onUp(event, false), { signal });
    this.#stage.addEventListener("contextmenu", (event) => event.preventDefault(), { signal });
    const onLockChange = () => this.#stage.classList.toggle("locked", this.isLocked);
    document.addEventListener("pointerlockchange", onLockChange, { signal });
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
      this.#setButton(event, true);
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
    const [held, buttons] = [this.#input.pointer.buttons, event.buttons & BUTTON_BITS];
    if (event.button >= 0 && buttons !== held) this.#setButton(event, buttons > held);
  }

  /**
   * Reports a button, unless it is one that controls messages do not know, such as the eraser of a pen.
   *
   * @param {PointerEvent} event
   * @param {boolean} down
   */
  #setButton({ button, buttons, timeStamp }, down) {
    if (button <= MAX_BUTTON) this.#input.setButton(button, down, buttons & BUTTON_BITS, timeStamp);
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
      this.#setButton(event, false);
      return;
    }
    const touch = this.#touch;
    if (touch?.id !== event.pointerId) return;
    this.#touch = null;
    const moved = Math.hypot(event.clientX - touch.startX, event.clientY - touch.startY) > TAP_PX;
    if (moved || !completed || event.timeStamp - touch.time > TAP_MS) return;
    const position = this.#position(event);
    if (position) this.#input.tap(position.x, position.y, event.timeStamp);
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
    const position = this.#position(event);
    if (position) this.#input.setPointer(position.x, position.y);
  }

  /**
   * Returns the position over the video, which may be smaller than the stage in full screen. There is none before the
   * first frame of a demo that declares no size.
   *
   * @param {PointerEvent} event
   */
  #position(event) {
    const aspect = this.#aspect();
    return aspect && positionIn(this.#stage.getBoundingClientRect(), aspect, event.clientX, event.clientY);
  }
}

/**
 * Returns the position of a point over a video that is centered in a box and fills it (`object-fit: contain`).
 *
 * @param {{ left: number, top: number, width: number, height: number }} box
 * @param {number} aspect width of the video over its height
 * @param {number} clientX
 * @param {number} clientY
 * @returns {{ x: number, y: number } | null} each 0 to 1; null in a box without an area
 */
export function positionIn(box, aspect, clientX, clientY) {
  const width = Math.min(box.width, box.height * aspect);
  if (!(width > 0)) return null;
  const height = width / aspect;
  const x = (clientX - box.left - (box.width - width) / 2) / width;
  const y = (clientY - box.top - (box.height - height) / 2) / height;
  return { x: Math.min(1, Math.max(0, x)), y: Math.min(1, Math.max(0, y)) };
}
