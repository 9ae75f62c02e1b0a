import assert from "node:assert/strict";
import { test } from "node:test";
import { PresentationReporter } from "../../web/js/presentation.js";
import { FakeTime, replace } from "./support.js";

function setUp() {
  const time = new FakeTime();
  /** @type {import("../../web/js/display.js").ShownFrame[]} */
  const shown = [];
  return { time, shown, reporter: new PresentationReporter((frame) => shown.push(frame)) };
}

test("a frame is reported at the next animation frame", () => {
  const { time, shown, reporter } = setUp();
  reporter.add({ rtp: 1 });
  assert.deepEqual(shown, []);
  time.advance(16);
  reporter.add({ rtp: 2 });
  time.advance(16);
  assert.deepEqual(shown, [
    { time: 16, rtp: 1 },
    { time: 32, rtp: 2 },
  ]);
});

test("of several frames drawn between two animation frames, the last one is reported", () => {
  const { time, shown, reporter } = setUp();
  for (let rtp = 0; rtp < 1000; rtp += 1) reporter.add({ rtp });
  assert.equal(time.pending, 1);
  time.advance(16);
  assert.deepEqual(shown, [{ time: 16, rtp: 999 }]);
});

test("a frame that was drawn while the page was hidden is not reported", () => {
  const { time, shown, reporter } = setUp();
  /** @type {(() => void)[]} */
  const waiting = [];
  replace(globalThis, "requestAnimationFrame", (/** @type {() => void} */ callback) => waiting.push(callback));
  reporter.add({ rtp: 1 });
  time.now = 60_000;
  waiting.pop()?.();
  assert.deepEqual(shown, []);
  reporter.add({ rtp: 2 });
  waiting.pop()?.();
  assert.deepEqual(shown, [{ time: 60_000, rtp: 2 }]);
});
