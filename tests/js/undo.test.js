import assert from "node:assert/strict";
import { beforeEach, mock, test } from "node:test";
import { UndoableReset } from "../../web/js/undo.js";
import { replace } from "./support.js";

/** @type {Record<string, { hidden: boolean, textContent: string, click: () => void, addEventListener: (type: string, listener: () => void) => void }>} */
let elements;
/** @type {UndoableReset} */
let undo;
let now = 0;

beforeEach(() => {
  now = 0;
  elements = {};
  class Element {
    hidden = true;
    textContent = "";
    click = () => {};
    /** @param {string} _type @param {() => void} listener */
    addEventListener(_type, listener) {
      this.click = listener;
    }
  }
  replace(globalThis, "HTMLElement", Element);
  replace(globalThis, "document", {
    getElementById: (/** @type {string} */ id) => {
      elements[id] ??= new Element();
      return elements[id];
    },
  });
  replace(globalThis, "performance", { now: () => now });
  mock.timers.reset();
  mock.timers.enable({ apis: ["setInterval"] });
  undo = new UndoableReset();
  undo.listen();
  undo.onStart();
});

/** @param {number} ms */
function advance(ms) {
  for (let passed = 0; passed < ms; passed += 250) {
    now += 250;
    mock.timers.tick(250);
  }
}

test("a rollout that has just started is reset at once", async () => {
  advance(29_000);
  assert.equal(await undo.confirm(true), true);
});

test("a longer one is reset after a while, and the text counts down", async () => {
  advance(30_000);
  const confirmed = undo.confirm(true);
  assert.equal(elements.undo.hidden, false);
  assert.equal(elements["undo-text"].textContent, "Starting again in 4 s.");
  advance(3000);
  assert.equal(elements["undo-text"].textContent, "Starting again in 1 s.");
  advance(1000);
  assert.equal(await confirmed, true);
  assert.equal(elements.undo.hidden, true);
});

test("it can be undone, or made at once", async () => {
  advance(30_000);
  let confirmed = undo.confirm(true);
  elements["undo-button"].click();
  assert.equal(await confirmed, false);
  confirmed = undo.confirm(true);
  elements["undo-now"].click();
  assert.equal(await confirmed, true);
  confirmed = undo.confirm(true);
  assert.equal(await undo.confirm(true), false, "another button makes the reset that is due");
  assert.equal(await confirmed, true);
});

test("the end of the rollout cancels it, and a rollout of unknown age counts as long", async () => {
  advance(30_000);
  const confirmed = undo.confirm(true);
  undo.cancel();
  assert.equal(await confirmed, false);
  assert.equal(await undo.confirm(false), true, "there is nothing to lose");
  undo.onStart(Number.POSITIVE_INFINITY);
  const late = undo.confirm(true);
  assert.equal(elements.undo.hidden, false);
  undo.cancel();
  assert.equal(await late, false);
});
