/** The keys of the demo: shows which are held, and can be pressed with a finger or the mouse. */
export class Legend {
  #input;
  #aliases;
  #caps = new Map();

  /**
   * @param {HTMLElement} element is filled
   * @param {{keys: {code: string, label: string, group: string}[], aliases: Record<string, string>}} controls
   * @param {import("./input.js").Input} input
   */
  constructor(element, { keys = [], aliases = {} }, input) {
    this.#input = input;
    this.#aliases = aliases;
    for (const name of new Set(keys.map((key) => key.group ?? ""))) {
      const members = keys.filter((key) => (key.group ?? "") === name);
      element.append(this.#group(name, members));
    }
  }

  /** Marks the keys that are held now. */
  update() {
    const meant = new Set(this.#input.keys.map((code) => this.#aliases[code] ?? code));
    for (const [code, cap] of this.#caps) {
      const held = meant.has(code);
      cap.classList.toggle("held", held);
      cap.setAttribute("aria-pressed", held);
    }
  }

  #group(name, keys) {
    const group = document.createElement("div");
    group.className = "keys";
    group.setAttribute("role", "group");
    group.setAttribute("aria-label", name || "Keys");
    group.append(...keys.map((key) => this.#key(key)));
    return group;
  }

  #key({ code, label }) {
    const others = Object.keys(this.#aliases).filter((alias) => this.#aliases[alias] === code).map(keyName);
    const cap = document.createElement("button");
    cap.type = "button";
    cap.className = "key";
    cap.tabIndex = -1;
    cap.dataset.code = code;
    cap.append(part("kbd", keyName(code)), part("span", label));
    if (others.length) cap.title = `also ${others.join(", ")}`;
    cap.addEventListener("pointerdown", (event) => {
      event.preventDefault();
      cap.setPointerCapture(event.pointerId);
      this.#input.press(code, event.timeStamp);
    });
    for (const end of ["pointerup", "pointercancel"]) {
      cap.addEventListener(end, (event) => this.#input.release(code, event.timeStamp));
    }
    this.#caps.set(code, cap);
    return cap;
  }
}

const ARROWS = { ArrowUp: "↑", ArrowDown: "↓", ArrowLeft: "←", ArrowRight: "→" };
const NAMES = { ...ARROWS, ShiftLeft: "Shift", ControlLeft: "Ctrl" };

/** "KeyW" -> "W": what stands on the key of a common keyboard. */
function keyName(code) {
  return NAMES[code] ?? code.replace(/^(Key|Digit)/, "");
}

function part(tag, text) {
  const element = document.createElement(tag);
  element.textContent = text;
  return element;
}
