import assert from "node:assert/strict";
import { test } from "node:test";
import { GamepadPoller, readGamepad } from "../../web/js/gamepad.js";
import { Input } from "../../web/js/input.js";
import { FakeTime, replace } from "./support.js";

/**
 * @param {number} index
 * @param {{ axes?: number[], buttons?: number[], mapping?: string }} [state]
 */
function fakeGamepad(index, { axes = [0, 0], buttons = [0, 0], mapping = "" } = {}) {
  return { index, mapping, connected: true, axes, buttons: buttons.map((value) => ({ value })) };
}

/** @param {(ReturnType<typeof fakeGamepad> | null)[]} gamepads */
function setUp(...gamepads) {
  const time = new FakeTime();
  const input = new Input();
  const page = { hasFocus: true };
  replace(globalThis, "navigator", { getGamepads: () => gamepads });
  replace(globalThis, "document", { hasFocus: () => page.hasFocus });
  const target = new EventTarget();
  replace(globalThis, "addEventListener", target.addEventListener.bind(target));
  new GamepadPoller(/** @type {any} */ (input)).listen();
  const frame = () => time.advance(16);
  return { input, page, time, frame, connect: () => target.dispatchEvent(new Event("gamepadconnected")) };
}

test("the state of a gamepad is rounded to hundredths", () => {
  const state = readGamepad({ axes: [0.1234, -1], buttons: [{ value: 0 }, { value: 0.666 }] });
  assert.deepEqual(state, { axes: [0.12, -1], buttons: [0, 0.67] });
});

test("a value that is no number is 0", () => {
  const state = readGamepad({ axes: [Number.NaN, Infinity], buttons: [{ value: /** @type {any} */ (undefined) }] });
  assert.deepEqual(state, { axes: [0, 0], buttons: [0] });
});

test("no more axes and buttons are read than a message may have", () => {
  const { axes, buttons } = readGamepad({ axes: Array(20).fill(0), buttons: Array(40).fill({ value: 1 }) });
  assert.deepEqual([axes.length, buttons.length], [16, 32]);
});

test("the gamepad that is used is read, whatever comes before it", () => {
  const [phantom, real, idle] = [fakeGamepad(0, { axes: [-1, -1] }), fakeGamepad(2), fakeGamepad(3)];
  const { input, frame } = setUp(phantom, null, real, idle);
  assert.deepEqual(input.gamepad?.axes, [-1, -1], "the only one that is known");
  real.axes = [0, 0.2];
  frame();
  real.axes = [0, 0.4];
  phantom.axes = [-1, -0.95];
  frame();
  assert.deepEqual(input.gamepad?.axes, [0, 0.4]);
  real.axes = [0, 0];
  phantom.axes = [-1, -1];
  frame();
  assert.deepEqual(input.gamepad?.axes, [0, 0], "drift is no use");
  phantom.buttons = [{ value: 1 }, { value: 0 }];
  frame();
  assert.deepEqual(input.gamepad?.buttons, [1, 0]);
});

test("a gamepad that is held is not left for another one", () => {
  const [first, second] = [fakeGamepad(0), fakeGamepad(1)];
  const { input, frame } = setUp(first, second);
  first.axes = [1, 0];
  frame();
  [first.axes, second.axes] = [
    [-1, 0],
    [0, 1],
  ];
  frame();
  assert.deepEqual(input.gamepad?.axes, [-1, 0]);
});

test("before any is used, a gamepad in the standard mapping is preferred", () => {
  const { input } = setUp(fakeGamepad(0), fakeGamepad(1, { axes: [0.1], mapping: "standard" }));
  assert.deepEqual(input.gamepad?.axes, [0.1]);
});

test("a gamepad that is disconnected makes way for the next", () => {
  const [first, second] = [fakeGamepad(0), fakeGamepad(1, { axes: [0.5] })];
  const { input, time, frame, connect } = setUp(first, second);
  first.axes = [1, 1];
  frame();
  first.connected = false;
  frame();
  assert.deepEqual(input.gamepad?.axes, [0.5]);
  second.connected = false;
  frame();
  assert.deepEqual([input.gamepad, time.pending], [null, 0]);
  first.connected = true;
  connect();
  assert.deepEqual(input.gamepad?.axes, [1, 1]);
});

test("a stick that is held while the page loses the focus counts again afterwards", () => {
  const { input, page, frame } = setUp(fakeGamepad(0, { axes: [1] }));
  page.hasFocus = false;
  frame();
  assert.deepEqual(input.snapshot().gamepad, null);
  page.hasFocus = true;
  frame();
  assert.deepEqual(input.snapshot().gamepad?.axes, [1]);
  input.releaseAll(); // the page was hidden, without an animation frame in between
  frame();
  assert.deepEqual(input.snapshot().gamepad?.axes, [1]);
});

test("a page that may not read gamepads works without them", () => {
  replace(globalThis, "navigator", {
    getGamepads: () => {
      throw new DOMException("not permitted", "SecurityError");
    },
  });
  replace(globalThis, "addEventListener", () => {});
  new GamepadPoller(/** @type {any} */ (new Input())).listen();
});
