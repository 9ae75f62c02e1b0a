import assert from "node:assert/strict";
import { beforeEach, test } from "node:test";
import { Input } from "../../web/js/input.js";
import { Keyboard } from "../../web/js/keyboard.js";
import { keyName } from "../../web/js/legend.js";
import { replace } from "./support.js";

/** An element of the page: matches selectors that start with its tag name. */
class FakeElement extends EventTarget {
  /** @param {string} tag */
  constructor(tag) {
    super();
    this.tag = tag;
  }

  /** @param {string} selector */
  matches(selector) {
    return selector.split(", ").includes(this.tag);
  }
}

beforeEach(() => replace(globalThis, "Element", FakeElement));

/**
 * @param {string} [tag] of the focused element
 * @param {string[]} [modifiers] further keys of the demo
 */
function setUp(tag = "div", modifiers = []) {
  const input = new Input();
  const target = new FakeElement(tag);
  new Keyboard(input, {
    keys: [
      { code: "KeyW", label: "Forward" },
      { code: "Space", label: "Jump" },
      ...modifiers.map((code) => ({ code, label: code })),
    ],
    aliases: { ArrowUp: "KeyW" },
  }).listen(/** @type {any} */ (target));
  const send = (/** @type {"keydown" | "keyup"} */ type, /** @type {string} */ code, more = {}) => {
    const event = Object.assign(new Event(type, { cancelable: true }), { code, key: code, ...more });
    target.dispatchEvent(event);
    return event.defaultPrevented;
  };
  return { input, send };
}

test("keys of the demo and their aliases are read", () => {
  const { input, send } = setUp();
  assert(send("keydown", "KeyW"));
  assert(send("keydown", "ArrowUp"));
  assert.equal(send("keydown", "KeyQ"), false);
  assert.deepEqual(input.keys, ["KeyW", "ArrowUp"]);
  send("keyup", "KeyW");
  assert.deepEqual(input.keys, ["ArrowUp"]);
});

test("a repeated key is suppressed", () => {
  const { input, send } = setUp();
  assert(send("keydown", "KeyW", { repeat: true }));
  assert.deepEqual(input.keys, []);
});

for (const modifier of ["ctrlKey", "metaKey", "altKey"]) {
  test(`a key with ${modifier} is a shortcut of the browser`, () => {
    const { input, send } = setUp();
    assert.equal(send("keydown", "KeyW", { [modifier]: true }), false);
    assert.deepEqual(input.keys, []);
  });
}

for (const [flag, code] of [
  ["ctrlKey", "ControlLeft"],
  ["altKey", "AltRight"],
  ["metaKey", "MetaLeft"],
]) {
  test(`${code} is read if the demo uses it, and so are its other keys while it is held`, () => {
    const { input, send } = setUp("div", [code]);
    assert(send("keydown", code, { [flag]: true }));
    assert(send("keydown", "KeyW", { [flag]: true }));
    assert.deepEqual(input.keys, [code, "KeyW"]);
    assert.equal(send("keydown", "KeyC", { [flag]: true }), false, "a shortcut of the browser");
    assert(send("keyup", code));
    assert.deepEqual(input.keys, ["KeyW"]);
  });

  test(`${code} is left to the browser if the demo does not use it`, () => {
    const { input, send } = setUp();
    assert.equal(send("keydown", code, { [flag]: true }), false);
    assert.deepEqual(input.keys, []);
  });
}

test("a modifier that the demo does not use makes a shortcut, whatever else is held", () => {
  const { input, send } = setUp("div", ["ControlLeft"]);
  send("keydown", "ControlLeft", { ctrlKey: true });
  assert.equal(send("keydown", "KeyW", { ctrlKey: true, altKey: true }), false);
  assert.deepEqual(input.keys, ["ControlLeft"]);
});

test("a modifier of the other side makes a shortcut", () => {
  const { input, send } = setUp("div", ["ControlLeft"]);
  assert.equal(send("keydown", "ControlRight", { ctrlKey: true }), false);
  assert.equal(send("keydown", "KeyW", { ctrlKey: true }), false);
  assert.deepEqual(input.keys, []);
});

test("a text control keeps all keys", () => {
  const { input, send } = setUp("textarea");
  assert.equal(send("keydown", "KeyW"), false);
  assert.deepEqual(input.keys, []);
});

test("a button keeps the keys that operate it", () => {
  const { input, send } = setUp("button");
  assert.equal(send("keydown", "Space"), false);
  assert(send("keydown", "KeyW"));
  assert.deepEqual(input.keys, ["KeyW"]);
});

test("releasing Command releases all keys", () => {
  const { input, send } = setUp();
  send("keydown", "KeyW");
  send("keydown", "Space");
  send("keyup", "MetaLeft", { key: "Meta" });
  assert.deepEqual(input.keys, []);
});

for (const [code, name] of [
  ["KeyW", "W"],
  ["Digit1", "1"],
  ["ArrowUp", "↑"],
  ["ShiftLeft", "Shift"],
  ["AltLeft", "Alt"],
  ["Space", "Space"],
]) {
  test(`the legend shows ${code} as ${name}`, () => {
    assert.equal(keyName(code), name);
  });
}
