import assert from "node:assert/strict";
import { test } from "node:test";
import { Input } from "../../web/js/input.js";

test("keys are held in the order of pressing, with an edge for each change", () => {
  const input = new Input();
  input.press("KeyW", 1);
  input.press("KeyA", 2);
  input.press("KeyW", 3);
  input.release("KeyW", 4);
  input.release("KeyQ", 5);
  const { keys, edges } = input.snapshot();
  assert.deepEqual(keys, ["KeyA"]);
  assert.deepEqual(edges, [
    { seq: 0, t: 1, kind: "key_down", code: "KeyW" },
    { seq: 1, t: 2, kind: "key_down", code: "KeyA" },
    { seq: 2, t: 4, kind: "key_up", code: "KeyW" },
  ]);
});

test("pointer movement is summed up to the next edge of another kind", () => {
  const input = new Input();
  input.movePointer(1, 2, 10);
  input.movePointer(3, 4, 11);
  input.press("KeyW", 12);
  input.movePointer(5, 6, 13);
  assert.deepEqual(input.snapshot().edges, [
    { seq: 0, t: 11, kind: "pointer_move", dx: 4, dy: 6 },
    { seq: 1, t: 12, kind: "key_down", code: "KeyW" },
    { seq: 2, t: 13, kind: "pointer_move", dx: 5, dy: 6 },
  ]);
});

test("buttons, wheel and taps are edges, positions are rounded", () => {
  const input = new Input();
  input.setPointer(0.12345, 0.5);
  input.setButton(2, true, 2, 1);
  input.setButton(2, false, 0, 2);
  input.wheel(0, 120, 3);
  input.tap(0.98765, 0, 4);
  const { pointer, edges } = input.snapshot();
  assert.deepEqual(pointer, { buttons: 0, x: 0.123, y: 0.5 });
  assert.deepEqual(edges, [
    { seq: 0, t: 1, kind: "button_down", button: 2 },
    { seq: 1, t: 2, kind: "button_up", button: 2 },
    { seq: 2, t: 3, kind: "wheel", dx: 0, dy: 120 },
    { seq: 3, t: 4, kind: "tap", x: 0.988, y: 0 },
  ]);
});

test("a message has at most 256 edges, the newest ones", () => {
  const input = new Input();
  for (let n = 0; n < 300; n += 1) input.wheel(0, n, n);
  const { edges } = input.snapshot();
  assert.deepEqual([edges.length, edges[0].seq, edges.at(-1)?.seq], [256, 44, 299]);
});

test("numbers that JSON cannot hold are not sent", () => {
  const input = new Input();
  input.addStick("move");
  for (const [x, y] of [
    [Number.NaN, 0],
    [0, Infinity],
    [/** @type {any} */ (undefined), 0],
  ]) {
    input.setPointer(x, y);
    input.movePointer(x, y, 1);
    input.wheel(x, y, 1);
    input.tap(x, y, 1);
    input.setStick("move", x, y);
  }
  const { pointer, sticks, edges } = input.snapshot();
  assert.deepEqual([pointer, sticks, edges], [{ buttons: 0, x: 0.5, y: 0.5 }, { move: [0, 0] }, []]);
});

test("movement and keys are within the limits of a message", () => {
  const input = new Input();
  input.movePointer(-90_000, 0, 1);
  input.movePointer(-90_000, 0, 2);
  input.wheel(0, 1e6, 3);
  for (let n = 0; n < 40; n += 1) input.press(`Key${n}`, 4);
  const { keys, edges } = input.snapshot();
  assert.deepEqual(edges.slice(0, 2), [
    { seq: 0, t: 2, kind: "pointer_move", dx: -100_000, dy: 0 },
    { seq: 1, t: 3, kind: "wheel", dx: 0, dy: 100_000 },
  ]);
  assert.deepEqual([keys.length, keys[0], keys.at(-1)], [32, "Key8", "Key39"]);
});

test("edges that were not delivered are dropped, fields stay unsent", () => {
  const input = new Input();
  input.press("KeyW", 1);
  input.setField("fog", 0.5);
  input.onSent(false);
  const { keys, fields, edges } = input.snapshot();
  assert.deepEqual([keys, fields, edges], [["KeyW"], { fog: 0.5 }, []]);
  input.onSent(true);
  assert.deepEqual(input.snapshot().fields, {});
});

test("changed fields are sent again on demand, until the session has them as its context", () => {
  const input = new Input();
  input.setField("fog", 0.5);
  input.onSent(true);
  input.resendFields();
  assert.deepEqual(input.snapshot().fields, { fog: 0.5 });
  input.clearChangedFields();
  input.resendFields();
  assert.deepEqual(input.snapshot().fields, {});
});

test("a value that is too large for a message is not sent", () => {
  const input = new Input();
  assert.equal(input.setField("image", "x".repeat(700_000)), false);
  assert.equal(input.setField("prompt", "\u0001".repeat(100_000)), true);
  input.resendFields();
  assert.deepEqual(
    input.longFields.map(([name]) => name),
    ["prompt"],
  );
  assert.deepEqual(Object.keys(input.changedFields), ["image", "prompt"]);
});

test("fields that do not fit into a message with the devices remain", () => {
  const input = new Input();
  const long = '"'.repeat(40_000);
  input.setField("story", long);
  input.setField("fog", 0.5);
  input.setField("a", "x".repeat(10_000));
  input.setField("b", "x".repeat(10_000));
  assert.deepEqual(Object.keys(input.snapshot().fields), ["fog", "a"]);
  input.onSent(true);
  assert.deepEqual(
    input.longFields.map(([name]) => name),
    ["story"],
    "the next message has room for b",
  );
  assert.deepEqual(Object.keys(input.snapshot().fields), ["b"]);
  input.onFieldSent("story");
  input.onSent(true);
  assert.deepEqual([input.longFields, input.snapshot().fields], [[], {}]);
});

test("releasing everything adds no edges", () => {
  const input = new Input();
  input.addStick("move");
  input.press("KeyW", 1);
  input.setStick("move", 0.5, -1);
  input.setButton(0, true, 1, 2);
  input.setGamepad({ axes: [1], buttons: [] });
  input.onSent(true);
  input.releaseAll();
  assert.deepEqual(input.snapshot(), {
    keys: [],
    pointer: { buttons: 0, x: 0.5, y: 0.5 },
    gamepad: null,
    sticks: { move: [0, 0] },
    fields: {},
    edges: [],
  });
});

test("edges and fields are urgent, movement is not", () => {
  const input = new Input();
  /** @type {boolean[]} */
  const calls = [];
  input.onChange = (urgent) => calls.push(urgent);
  input.press("KeyW", 1);
  input.setField("fog", 1);
  input.movePointer(1, 1, 2);
  input.setPointer(0, 0);
  input.setStick("move", 1, 0);
  assert.deepEqual(calls, [true, true, false, false, false]);
});
