import assert from "node:assert/strict";
import { test } from "node:test";
import { MultipartReader } from "../../web/js/multipart.js";

/** @param {string} text one character per byte */
const bytes = (text) => Uint8Array.from(text, (character) => character.charCodeAt(0));

/** @param {string[]} bodies */
function streamOf(bodies) {
  const parts = bodies.map((body, index) => {
    const head = `Content-Type: image/jpeg\r\nContent-Length: ${body.length}\r\nX-Frame: seq=${index}\r\n\r\n`;
    return `${head}${body}\r\n--frame\r\n`;
  });
  return bytes(`--frame\r\n${parts.join("")}`);
}

/** @param {{ headers: Map<string, string>, body: Uint8Array }[]} parts */
const described = (parts) => parts.map(({ headers, body }) => [headers.get("x-frame"), String.fromCharCode(...body)]);

const BODIES = ["", "\r\n\r\n--frame\r\n", "\0\x01\xff".repeat(100), "jpg"];

for (const size of [1, 2, 3, 7, 64, 1000]) {
  test(`parts are found in pieces of ${size} bytes`, () => {
    const stream = streamOf(BODIES);
    const reader = new MultipartReader();
    const parts = [];
    for (let at = 0; at < stream.length; at += size) parts.push(...reader.push(stream.slice(at, at + size)));
    assert.deepEqual(
      described(parts),
      BODIES.map((body, index) => [`seq=${index}`, body]),
    );
  });
}

test("a part is complete with its last byte", () => {
  const stream = streamOf(["image"]);
  const end = stream.length - "\r\n--frame\r\n".length;
  const reader = new MultipartReader();
  assert.deepEqual(reader.push(stream.slice(0, end - 1)), []);
  assert.deepEqual(described(reader.push(stream.slice(end - 1, end))), [["seq=0", "image"]]);
});

test("a part without Content-Length is an error", () => {
  assert.throws(
    () => new MultipartReader().push(bytes("--frame\r\nContent-Type: image/jpeg\r\n\r\n")),
    /no Content-Length/,
  );
});
