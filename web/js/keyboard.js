/** Text controls keep all keys to themselves. */
const TYPING = "textarea, select, input:not([type=range], [type=checkbox], [type=radio], [type=file], [type=button])";
/** Other controls need these to be worked without a mouse. */
const WORKING = "input, button, a, summary";
const WORKING_KEYS = /^(Arrow|Page|Home|End|Space|Enter|Tab)/;

/** Reads the keys that the demo listens to, by their place on the keyboard. */
export class Keyboard {
  #input;
  #known;

  /**
   * @param {import("./input.js").Input} input
   * @param {{keys: {code: string}[], aliases: Record<string, string>}} controls
   */
  constructor(input, { keys = [], aliases = {} }) {
    this.#input = input;
    this.#known = new Set([...keys.map((key) => key.code), ...Object.keys(aliases)]);
  }

  /** Begins to read. */
  listen() {
    addEventListener("keydown", (event) => this.#down(event));
    addEventListener("keyup", (event) => this.#up(event));
  }

  #down(event) {
    if (!this.#known.has(event.code) || event.ctrlKey || event.metaKey || event.altKey) return;
    if (isTakenBy(event.target, event.code)) return;
    event.preventDefault();
    if (!event.repeat) this.#input.press(event.code, event.timeStamp);
  }

  #up(event) {
    // macOS tells nothing of keys that are let go while Command is down.
    const released = event.key === "Meta" ? this.#input.keys : [event.code];
    released.forEach((code) => this.#input.release(code, event.timeStamp));
  }
}

function isTakenBy(target, code) {
  if (!(target instanceof Element)) return false;
  return target.matches(TYPING) || (target.matches(WORKING) && WORKING_KEYS.test(code));
}
