/** Controls that take text keep all keys. */
const TEXT_CONTROLS =
  "textarea, select, input:not([type=range], [type=checkbox], [type=radio], [type=file], [type=button])";
/** Other controls keep the keys that operate them. */
const OTHER_CONTROLS = "input, button, a, summary";
const OPERATING_KEYS = /^(Arrow|Page|Home|End|Space|Enter|Tab)/;

/** @type {["ctrlKey" | "altKey" | "metaKey", string, string][]} Modifiers of shortcuts, and the codes of their keys. */
const MODIFIERS = [
  ["ctrlKey", "ControlLeft", "ControlRight"],
  ["altKey", "AltLeft", "AltRight"],
  ["metaKey", "MetaLeft", "MetaRight"],
];

/**
 * @typedef {object} KeyTarget the window or an element
 * @property {(type: "keydown" | "keyup", listener: (event: KeyboardEvent) => void, options: AddEventListenerOptions) => void} addEventListener
 */

/**
 * Reads the keys that the demo uses, by their position on the keyboard (`KeyboardEvent.code`). A key that is pressed with
 * Control, Alt or Meta is a shortcut of the browser, unless the demo uses that modifier too.
 */
export class Keyboard {
  #input;
  #codes;

  /**
   * @param {import("./input.js").Input} input
   * @param {Pick<import("./api.js").ControlsDescription, "keys" | "aliases">} controls
   */
  constructor(input, { keys, aliases }) {
    this.#input = input;
    this.#codes = new Set([...keys.map((key) => key.code), ...Object.keys(aliases)]);
  }

  /**
   * Starts to listen.
   *
   * @param {KeyTarget} target
   * @param {AbortSignal} [signal] ends it
   */
  listen(target = window, signal = undefined) {
    target.addEventListener("keydown", (event) => this.#onKeyDown(event), { signal });
    target.addEventListener("keyup", (event) => this.#onKeyUp(event), { signal });
  }

  /** @param {KeyboardEvent} event */
  #onKeyDown(event) {
    if (!this.#codes.has(event.code) || this.#isShortcut(event)) return;
    if (isUsedBy(event.target, event.code)) return;
    event.preventDefault();
    if (!event.repeat) this.#input.press(event.code, event.timeStamp);
  }

  /** @param {KeyboardEvent} event */
  #onKeyUp(event) {
    // macOS sends no keyup for keys that are released while Command is held.
    const released = event.key === "Meta" ? this.#input.keys : [event.code];
    // Releasing Alt moves the focus to the menu of some browsers.
    if (this.#input.keys.includes(event.code)) event.preventDefault();
    for (const code of released) this.#input.release(code, event.timeStamp);
  }

  /** @param {KeyboardEvent} event */
  #isShortcut(event) {
    return MODIFIERS.some(([flag, ...codes]) => {
      const isKeyOfDemo = codes.some((code) => code === event.code || this.#input.keys.includes(code));
      return event[flag] && !isKeyOfDemo;
    });
  }
}

/**
 * Whether the focused control needs this key.
 *
 * @param {EventTarget | null} target
 * @param {string} code
 */
function isUsedBy(target, code) {
  if (!(target instanceof Element)) return false;
  return target.matches(TEXT_CONTROLS) || (target.matches(OTHER_CONTROLS) && OPERATING_KEYS.test(code));
}
