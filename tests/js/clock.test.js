import assert from "node:assert/strict";
import { test } from "node:test";
import { ServerClock } from "../../web/js/clock.js";

/**
 * @param {string} name
 * @param {[sent: number, server: number, received: number][]} pongs milliseconds
 * @param {number} now
 * @param {{ offset: number, uncertainty: number }} expected
 */
function testEstimate(name, pongs, now, expected) {
  test(`the clock is estimated from ${name}`, () => {
    const clock = new ServerClock();
    for (const [sent, server, received] of pongs) clock.addPong(sent, server * 1e6, received);
    const estimate = clock.estimate(now);
    assert(estimate !== null);
    assert(Math.abs(estimate.offset - expected.offset) < 1e-6, `offset ${estimate.offset}`);
    assert(Math.abs(estimate.uncertainty - expected.uncertainty) < 1e-6, `uncertainty ${estimate.uncertainty}`);
  });
}

testEstimate("the middle of a round trip", [[0, 5001, 2]], 2, { offset: 5000, uncertainty: 1 });
testEstimate(
  "the shortest round trip",
  [
    [0, 5009, 10],
    [20, 5020.5, 21],
    [40, 5048, 50],
  ],
  50,
  { offset: 5000, uncertainty: 0.5 + 29e-4 },
);
testEstimate(
  "a longer round trip once the shortest is old",
  [
    [0, 5001, 2],
    [60_000, 65_005, 60_004],
  ],
  60_004,
  { offset: 5003, uncertainty: 2 },
);
testEstimate(
  "the pongs after a jump only",
  [
    [0, 5001, 2],
    [1000, 9000, 1010],
  ],
  1010,
  { offset: 7995, uncertainty: 5 },
);
testEstimate(
  "the newest 16 pongs",
  [
    [0, 5000.5, 1],
    ...Array.from({ length: 20 }, (_, n) => /** @type {[number, number, number]} */ ([n, n + 5003, n + 4])),
  ],
  30,
  { offset: 5001, uncertainty: 2 + 7e-4 },
);

test("there is no estimate without a pong", () => {
  const clock = new ServerClock();
  assert.equal(clock.estimate(5), null);
  clock.addPong(0, 5e9, 1);
  clock.clear();
  assert.equal(clock.estimate(5), null);
});
