import assert from "node:assert/strict";
import { test } from "node:test";
import { KeyToPixel } from "../../web/js/latency.js";

/** @param {[seq: number, time: number][]} presses */
function withPresses(...presses) {
  const latency = new KeyToPixel();
  for (const [seq, time] of presses) latency.addPress(seq, time);
  return latency;
}

test("the first frame that is shaped by the press is measured", () => {
  const latency = withPresses([7, 100]);
  assert.equal(latency.addFrame(6, 120), null);
  assert.equal(latency.median, null);
  assert.deepEqual(latency.addFrame(9, 150), { seq: 7, time: 100 });
  assert.equal(latency.addFrame(9, 190), null);
  assert.deepEqual([latency.median, latency.p95], [50, 50]);
});

test("a frame without an action is not measured", () => {
  const latency = withPresses([7, 100]);
  assert.equal(latency.addFrame(null, 150), null);
  assert.equal(latency.median, null);
});

test("a press without a frame for 5 s is dropped", () => {
  const latency = withPresses([7, 100]);
  latency.addFrame(6, 9000);
  latency.addFrame(7, 9001);
  assert.equal(latency.median, null);
});

test("presses that no frame shows are bounded", () => {
  const latency = withPresses(
    ...Array.from({ length: 1000 }, (_, seq) => /** @type {[number, number]} */ ([seq, seq])),
  );
  assert.equal(latency.addFrame(1000, 1000)?.seq, 936);
});

test("cleared presses are not measured, samples stay", () => {
  const latency = withPresses([7, 100]);
  latency.addFrame(7, 150);
  latency.addPress(8, 200);
  latency.clear();
  assert.equal(latency.addFrame(8, 250), null);
  assert.equal(latency.median, 50);
});

test("a frame that shows several presses returns the oldest and measures each", () => {
  const latency = withPresses([7, 10], [8, 20]);
  assert.deepEqual(latency.addFrame(8, 60), { seq: 7, time: 10 });
  assert.deepEqual([latency.median, latency.p95], [40, 50]);
});

test("the quantiles are those of the newest 31 presses", () => {
  const latency = new KeyToPixel();
  for (let n = 0; n < 40; n += 1) {
    latency.addPress(n, 0);
    latency.addFrame(n, 500);
  }
  for (let n = 40; n < 71; n += 1) {
    latency.addPress(n, 1000);
    latency.addFrame(n, 1000 + n);
  }
  assert.deepEqual([latency.median, latency.p95], [55, 69]);
});
