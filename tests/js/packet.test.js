import assert from "node:assert/strict";
import { test } from "node:test";
import { codecOf, parsePacket } from "../../web/js/packet.js";

test("the header and the data of a packet are parsed", () => {
  const view = new DataView(new ArrayBuffer(38));
  view.setUint8(0, 1);
  view.setUint8(1, 0b11);
  view.setUint16(2, 3);
  view.setUint32(4, 4);
  view.setBigUint64(8, 5_000_000_000n);
  view.setBigUint64(16, 6n);
  view.setBigInt64(24, 7n);
  view.setUint32(32, 8);
  view.setUint16(36, 0x090a);
  assert.deepEqual(parsePacket(view.buffer), {
    keyframe: true,
    index: 3,
    number: 4,
    timestamp: 5_000_000_000,
    seq: 6,
    actionSeq: 7,
    epoch: 8,
    data: new Uint8Array([9, 10]),
  });
  view.setBigInt64(24, -1n);
  assert.equal(parsePacket(view.buffer).actionSeq, null);
});

for (const message of [[], [2, ...Array(40).fill(0)], [1, ...Array(34).fill(0)]]) {
  test(`a message of ${message.length} bytes and version ${message[0]} is an error`, () => {
    assert.throws(() => parsePacket(new Uint8Array(message).buffer), /unsupported format/);
  });
}

for (const [data, codec] of /** @type {[number[], string | null][]} */ ([
  [[0, 0, 0, 1, 0x67, 0x42, 0xc0, 0x1e, 9, 0, 0, 0, 1, 0x68, 1], "avc1.42C01E"],
  [[0, 0, 1, 9, 0xf0, 0, 0, 1, 0x27, 0x4d, 0, 0x0a], "avc1.4D000A"],
  [[0, 0, 0, 1, 0x65, 1, 2, 3, 4, 5, 6], null],
  [[0, 0, 1, 0x67, 0x42], null],
])) {
  test(`the codec of ${data.length} bytes is ${codec}`, () => {
    assert.equal(codecOf(new Uint8Array(data)), codec);
  });
}
