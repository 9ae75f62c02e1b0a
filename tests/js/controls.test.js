import assert from "node:assert/strict";
import { test } from "node:test";
import { applyControls } from "../../web/js/controls.js";
import { Input } from "../../web/js/input.js";

/** @import { ControlsUpdate } from "../../web/js/controls.js" */

/** @param {ControlsUpdate[]} updates */
function after(...updates) {
  const input = new Input();
  for (const update of updates) applyControls(input, update);
  const { edges, ...state } = input.snapshot();
  return { ...state, edges: edges.map(({ seq: _seq, t: _t, ...edge }) => edge) };
}

test("keys are pressed and released by the difference from those that are held", () => {
  const { keys, edges } = after({ keys: ["KeyW", "KeyA"] }, { keys: ["KeyW", "KeyD"] });
  assert.deepEqual(keys, ["KeyW", "KeyD"]);
  assert.deepEqual(edges.slice(2), [
    { kind: "key_up", code: "KeyA" },
    { kind: "key_down", code: "KeyD" },
  ]);
});

test("omitted devices keep their state", () => {
  const { keys, sticks, fields } = after({ keys: ["KeyW"] }, { sticks: { move: [0, -1] }, fields: { seed: 7 } });
  assert.deepEqual([keys, sticks, fields], [["KeyW"], { move: [0, -1] }, { seed: 7 }]);
});

test("buttons of the pointer become edges with their numbers", () => {
  const { pointer, edges } = after({ pointer: { x: 0.25, y: 0.75, buttons: 1 } }, { pointer: { buttons: 2 } });
  assert.deepEqual(pointer, { x: 0.25, y: 0.75, buttons: 2 });
  assert.deepEqual(edges, [
    { kind: "button_down", button: 0 },
    { kind: "button_up", button: 0 },
    { kind: "button_down", button: 2 },
  ]);
});

test("taps, wheel and movement are edges", () => {
  const { edges } = after({
    edges: [
      { kind: "tap", x: 0.5, y: 0.5 },
      { kind: "wheel", dx: 0, dy: 3 },
      { kind: "pointer_move", dx: 1, dy: 2 },
    ],
  });
  assert.deepEqual(
    edges.map(({ kind }) => kind),
    ["tap", "wheel", "pointer_move"],
  );
});
