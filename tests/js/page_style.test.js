import assert from "node:assert/strict";
import { test } from "node:test";
import { formatValue } from "../../web/js/page_style.js";

for (const [value, text] of /** @type {[number, string][]} */ ([
  [3, "3"],
  [-120000, "-120000"],
  [1.23456, "1.235"],
  [0.000123456, "0.0001235"],
])) {
  test(`${value} is shown as ${text}`, () => {
    assert.equal(formatValue(value), text);
  });
}
