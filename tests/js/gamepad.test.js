import assert from "node:assert/strict";
import { test } from "node:test";
import { readGamepad } from "../../web/js/gamepad.js";

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
