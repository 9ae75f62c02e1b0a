import assert from "node:assert/strict";
import { test } from "node:test";
import { ServerClock } from "../../web/js/clock.js";
import { FrameReporter } from "../../web/js/frame_reporter.js";
import { FakeTime } from "./support.js";

/** @param {number} seq */
const frame = (seq) => ({ epoch: 1, seq, index: 0, presented: seq });
/** @param {number} first @param {number} last */
const range = (first, last) => Array.from({ length: last - first + 1 }, (_, index) => first + index);

function setUp() {
  const time = new FakeTime();
  const clock = new ServerClock();
  /** @type {[string | null, number[]][]} */
  const sent = [];
  /** @type {boolean[]} */
  const timing = [];
  const reporter = new FrameReporter(clock, (body) => {
    sent.push([body.viewer, body.frames.map(({ seq }) => seq)]);
    timing.push(body.timing);
  });
  return { time, clock, sent, timing, reporter };
}

test("8 frames are sent at once, fewer after 250 ms", () => {
  const { time, clock, sent, reporter } = setUp();
  clock.addPong(0, 1e9, 1);
  for (const seq of range(0, 9)) reporter.add("a", frame(seq));
  assert.deepEqual(sent, [["a", range(0, 7)]]);
  time.advance(249);
  assert.equal(sent.length, 1);
  time.advance(1);
  assert.deepEqual(sent[1], ["a", [8, 9]]);
  assert.equal(time.pending, 0);
});

test("frames of different viewers are sent separately", () => {
  const { time, clock, sent, reporter } = setUp();
  clock.addPong(0, 1e9, 1);
  reporter.add("a", frame(1));
  reporter.add("b", frame(2));
  time.advance(250);
  assert.deepEqual(sent, [
    ["a", [1]],
    ["b", [2]],
  ]);
});

test("before the first pong, the newest 64 frames wait", () => {
  const { time, clock, sent, reporter } = setUp();
  for (const seq of range(0, 69)) reporter.add(null, frame(seq));
  time.advance(1000);
  assert.deepEqual(sent, []);
  clock.addPong(1000, 1e9, 1001);
  reporter.add(null, frame(70));
  assert.deepEqual(sent, [[null, range(7, 70)]]);
});

test("cleared frames are not sent", () => {
  const { time, clock, sent, reporter } = setUp();
  clock.addPong(0, 1e9, 1);
  reporter.add("a", frame(1));
  reporter.clear();
  time.advance(1000);
  assert.deepEqual(sent, []);
});

test("timing is requested once a second, if wanted", () => {
  const { time, clock, timing, reporter } = setUp();
  clock.addPong(0, 1e9, 1);
  const report = () => {
    reporter.add("a", frame(1));
    reporter.flush();
  };
  report();
  reporter.wantsTiming = true;
  report();
  time.advance(999);
  report();
  time.advance(1);
  report();
  assert.deepEqual(timing, [false, true, false, true]);
});
