import assert from "node:assert/strict";
import { test } from "node:test";
import { FrameMatcher } from "../../web/js/frames.js";

function setUp() {
  /** @type {[number, number][]} */
  const matched = [];
  const frames = new FrameMatcher((identity, presentation) => matched.push([identity.seq, presentation.time]));
  return {
    matched,
    frames,
    identify: (/** @type {number} */ seq) => frames.addIdentity(100 + seq, { epoch: 1, seq, index: 0, action_seq: 4 }),
    present: (/** @type {number} */ seq) => frames.addPresentation(100 + seq, { time: 10 * seq }),
  };
}

test("the identity may come first", () => {
  const { matched, identify, present } = setUp();
  identify(1);
  present(1);
  assert.deepEqual(matched, [[1, 10]]);
});

test("the presentation may come first", () => {
  const { matched, identify, present } = setUp();
  present(1);
  identify(1);
  assert.deepEqual(matched, [[1, 10]]);
});

test("frames are matched in any order", () => {
  const { matched, identify, present } = setUp();
  identify(1);
  present(2);
  present(1);
  identify(2);
  assert.deepEqual(matched, [
    [1, 10],
    [2, 20],
  ]);
});

test("a repeated identity is not matched again", () => {
  const { matched, identify, present } = setUp();
  identify(1);
  present(1);
  identify(1);
  assert.deepEqual(matched, [[1, 10]]);
});

test("cleared halves are not matched", () => {
  const { matched, frames, identify, present } = setUp();
  identify(1);
  present(2);
  frames.clear();
  present(1);
  identify(2);
  assert.deepEqual(matched, []);
});

test("the newest 240 halves are kept", () => {
  const { matched, identify, present } = setUp();
  for (let seq = 0; seq <= 240; seq += 1) identify(seq);
  present(0);
  present(1);
  assert.deepEqual(matched, [[1, 10]]);
});
