import assert from "node:assert/strict";
import { beforeEach, test } from "node:test";
import { PacketDecoder } from "../../web/js/decoder.js";
import { replace } from "./support.js";

const KEYFRAME = new Uint8Array([0, 0, 1, 0x67, 0x42, 0xc0, 0x1e]);

class FakeDecoder {
  /** @type {FakeDecoder[]} */
  static instances = [];
  state = "unconfigured";
  decodeQueueSize = 0;
  /** @type {string[]} */
  calls = [];

  /** @param {{ output: (frame: object) => void, error: (error: Error) => void }} callbacks */
  constructor({ output, error }) {
    this.output = output;
    this.error = error;
    FakeDecoder.instances.push(this);
  }

  /** @param {{ codec: string }} configuration */
  configure({ codec }) {
    this.state = "configured";
    this.calls.push(codec);
  }

  /** @param {{ type: string, timestamp: number }} chunk */
  decode({ type, timestamp }) {
    this.decodeQueueSize += 1;
    this.calls.push(`${type} ${timestamp}`);
  }

  reset() {
    this.state = "unconfigured";
    this.decodeQueueSize = 0;
    this.calls.push("reset");
  }

  close() {
    this.state = "closed";
  }

  /** @param {number} timestamp */
  finish(timestamp) {
    this.decodeQueueSize -= 1;
    const frame = { timestamp, isClosed: false, close: () => (frame.isClosed = true) };
    this.output(frame);
    return frame;
  }

  break() {
    this.state = "closed";
    this.error(new Error("broken"));
  }
}

beforeEach(() => {
  FakeDecoder.instances = [];
  replace(globalThis, "VideoDecoder", FakeDecoder);
  replace(
    globalThis,
    "EncodedVideoChunk",
    class {
      /** @param {object} chunk */
      constructor(chunk) {
        Object.assign(this, chunk);
      }
    },
  );
});

function setUp() {
  /** @type {(number | string)[]} */
  const events = [];
  const decoder = new PacketDecoder({
    onFrame: (_frame, packet) => events.push(packet.timestamp),
    onKeyframeNeeded: () => events.push("keyframe needed"),
    onError: (error) => events.push(error.message),
  });
  const feed = (/** @type {"key" | "delta"} */ type, /** @type {number} */ timestamp, data = KEYFRAME) => {
    const identity = { number: timestamp, epoch: 1, seq: timestamp, index: 0, actionSeq: null };
    decoder.decode({ ...identity, keyframe: type === "key", timestamp, data });
  };
  return { decoder, events, feed, newest: () => /** @type {FakeDecoder} */ (FakeDecoder.instances.at(-1)) };
}

test("decoding starts with a keyframe", () => {
  const { decoder, events, feed, newest } = setUp();
  feed("delta", 0);
  feed("key", 1);
  newest().finish(1);
  feed("delta", 2);
  newest().finish(2);
  feed("key", 3);
  assert.deepEqual(events, [1, 2]);
  assert.deepEqual(newest().calls, ["avc1.42C01E", "key 1", "delta 2", "key 3"]);
  assert.equal(decoder.dropped, 1);
});

test("a decoder that falls behind continues with the next keyframe", () => {
  const { decoder, events, feed, newest } = setUp();
  feed("key", 1);
  for (let timestamp = 2; timestamp < 8; timestamp += 1) feed("delta", timestamp);
  feed("key", 8);
  newest().finish(8);
  assert.deepEqual(events, ["keyframe needed", 8]);
  const before = ["avc1.42C01E", "key 1", "delta 2", "delta 3", "delta 4"];
  assert.deepEqual(newest().calls, [...before, "reset", "avc1.42C01E", "key 8"]);
  assert.equal(decoder.dropped, 4 + 3);
});

test("a decoder that breaks is replaced, unless its successor breaks before the first frame", () => {
  const { events, feed, newest } = setUp();
  feed("key", 1);
  newest().finish(1);
  newest().break();
  feed("delta", 2);
  feed("key", 3);
  newest().break();
  assert.deepEqual(events, [1, "keyframe needed", "broken"]);
  assert.deepEqual(
    FakeDecoder.instances.map(({ calls }) => calls),
    [
      ["avc1.42C01E", "key 1"],
      ["avc1.42C01E", "key 3"],
    ],
  );
});

test("a keyframe without parameter sets is an error", () => {
  const { events, feed } = setUp();
  feed("key", 1, new Uint8Array([0, 0, 1, 0x65, 1, 2, 3]));
  assert.deepEqual(events, ["The server sent a keyframe without parameter sets"]);
});

test("a frame that arrives after close is closed", () => {
  const { decoder, events, feed, newest } = setUp();
  feed("key", 1);
  decoder.close();
  assert.equal(newest().state, "closed");
  assert(newest().finish(1).isClosed);
  assert.deepEqual(events, []);
});
