import assert from "node:assert/strict";
import { test } from "node:test";
import { positionIn } from "../../web/js/pointer.js";
import { fitSize } from "../../web/js/source.js";
import { deflection } from "../../web/js/stick.js";

for (const [x, y, expected] of /** @type {[number, number, [number, number]][]} */ ([
  [0, 0, [0, 0]],
  [0.05, 0.05, [0, 0]],
  [0.5, -0.25, [0.5, -0.25]],
  [0, 3, [0, 1]],
  [3, -4, [0.6, -0.8]],
])) {
  test(`a stick that is dragged to (${x}, ${y}) is deflected by (${expected})`, () => {
    const rounded = deflection(x, y).map((value) => Math.round(1e9 * value) / 1e9);
    assert.deepEqual(rounded, expected);
  });
}

const WIDE = { left: 100, top: 50, width: 400, height: 100 };
const TALL = { left: 100, top: 50, width: 100, height: 400 };

for (const [box, clientX, clientY, x, y] of /** @type {[typeof WIDE, number, number, number, number][]} */ ([
  [WIDE, 300, 100, 0.5, 0.5],
  [WIDE, 200, 50, 0, 0],
  [WIDE, 400, 150, 1, 1],
  [WIDE, 110, 20, 0, 0],
  [TALL, 150, 250, 0.5, 0.5],
  [TALL, 200, 275, 1, 1],
  [TALL, 125, 237.5, 0.25, 0.25],
])) {
  test(`(${clientX}, ${clientY}) in a box of ${box.width}x${box.height} is (${x}, ${y}) in a 2:1 video`, () => {
    assert.deepEqual(positionIn(box, 2, clientX, clientY), { x, y });
  });
}

test("a box without an area has no positions", () => {
  assert.equal(positionIn({ left: 0, top: 0, width: 0, height: 0 }, 2, 10, 10), null);
});

for (const [width, height, maxSide, expected] of /** @type {[number, number, number, [number, number]][]} */ ([
  [1920, 1080, 640, [640, 360]],
  [320, 241, 640, [320, 242]],
  [1, 1000, 640, [2, 640]],
])) {
  test(`an image of ${width}x${height} is sent as ${expected.join("x")}`, () => {
    assert.deepEqual(fitSize(width, height, maxSide), { width: expected[0], height: expected[1] });
  });
}
