import assert from "node:assert/strict";
import { test } from "node:test";
import { Emitter } from "../../web/js/emitter.js";

test("an event reaches the listeners of its type, in order", () => {
  /** @type {Emitter<{ a: number, b: string }>} */
  const emitter = new Emitter();
  /** @type {string[]} */
  const events = [];
  emitter.on("a", (detail) => events.push(`first ${detail}`));
  emitter.on("a", (detail) => events.push(`second ${detail}`));
  emitter.on("b", (detail) => events.push(`other ${detail}`));
  emitter.emit("a", 1);
  emitter.emit("b", "x");
  assert.deepEqual(events, ["first 1", "second 1", "other x"]);
});
