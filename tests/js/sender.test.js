import assert from "node:assert/strict";
import { test } from "node:test";
import { Emitter } from "../../web/js/emitter.js";
import { Input } from "../../web/js/input.js";
import { ControlSender } from "../../web/js/sender.js";
import { FakeTime } from "./support.js";

/** @extends {Emitter<{ open: null, message: object }>} */
class FakeChannel extends Emitter {
  isOpen = true;
  isCongested = false;
  /** @type {any[]} */
  sent = [];

  /** Fields of a message that can be sent without keys. */
  maxFields = Number.POSITIVE_INFINITY;

  /** @param {any} message */
  send(message) {
    const isSent = this.isOpen && ("keys" in message || Object.keys(message.fields ?? {}).length <= this.maxFields);
    if (isSent) this.sent.push(message);
    return isSent;
  }

  /** @param {string} type */
  count(type) {
    return this.sent.filter((message) => message.type === type).length;
  }
}

function setUp() {
  const time = new FakeTime();
  const input = new Input();
  const channel = new FakeChannel();
  const sender = new ControlSender(input, /** @type {any} */ (channel));
  input.onChange = (urgent) => sender.onInputChange(urgent);
  return { time, input, channel, sender };
}

test("a key press is sent at once, with the number of its message reported", () => {
  const { time, input, channel, sender } = setUp();
  /** @type {[number, number][]} */
  const presses = [];
  sender.onPress = (seq, pressed) => presses.push([seq, pressed]);
  time.now = 20;
  input.press("KeyW", 15);
  input.release("KeyW", 16);
  assert.deepEqual(presses, [[0, 15]]);
  assert.deepEqual(
    channel.sent.map(({ v, type, seq, t, keys }) => [v, type, seq, t, keys]),
    [
      [1, "controls", 0, 20, ["KeyW"]],
      [1, "controls", 1, 20, []],
    ],
  );
});

test("while the network stalls, only urgent changes are sent, and movement adds up", () => {
  const { time, input, channel, sender } = setUp();
  sender.start();
  channel.isCongested = true;
  for (let n = 0; n < 100; n += 1) {
    input.movePointer(1, 0, n);
    time.advance(100);
    sender.sendPresented({ viewer: null, clock: { offset: 0, uncertainty: 0 }, timing: false, frames: [] });
  }
  assert.equal(channel.sent.length, 0);
  input.press("KeyW", 1);
  assert.equal(channel.sent.length, 1);
  input.movePointer(1, 0, 1);
  time.advance(100);
  channel.isCongested = false;
  time.advance(16);
  assert.deepEqual(
    channel.sent.flatMap((message) => (message.edges ?? []).map((/** @type {any} */ edge) => [edge.kind, edge.dx])),
    [
      ["pointer_move", 100],
      ["key_down", undefined],
      ["pointer_move", 1],
    ],
  );
});

test("movement is sent once per animation frame", () => {
  const { time, input, channel } = setUp();
  input.movePointer(1, 0, 1);
  input.movePointer(2, 0, 2);
  assert.equal(channel.sent.length, 0);
  time.advance(16);
  assert.equal(channel.sent.length, 1);
  assert.deepEqual(channel.sent[0].edges, [{ seq: 0, t: 2, kind: "pointer_move", dx: 3, dy: 0 }]);
});

test("an urgent change includes the pending movement", () => {
  const { time, input, channel } = setUp();
  input.movePointer(1, 0, 1);
  input.press("KeyW", 2);
  time.advance(16);
  assert.deepEqual(
    channel.sent.map(({ edges }) => edges.map((/** @type {{ kind: string }} */ edge) => edge.kind)),
    [["pointer_move", "key_down"]],
  );
});

test("the state is repeated every 500 ms unless it was sent recently", () => {
  const { time, input, channel, sender } = setUp();
  sender.start();
  time.advance(400);
  input.press("KeyW", 400);
  time.advance(100);
  assert.equal(channel.count("controls"), 1);
  time.advance(500);
  assert.equal(channel.count("controls"), 2);
});

test("pings are sent every second, and pongs reported", () => {
  const { time, channel, sender } = setUp();
  /** @type {number[][]} */
  const pongs = [];
  sender.onPong = (...pong) => pongs.push(pong);
  sender.start();
  time.advance(1000);
  assert.deepEqual(
    channel.sent.filter(({ type }) => type === "ping").map(({ t }) => t),
    [1000],
  );
  time.advance(4);
  channel.emit("message", { type: "pong", t: 1000, server_ns: 5e9 });
  assert.deepEqual(pongs, [[1000, 5e9, 1004]]);
});

test("a new connection receives the state and all changed fields", () => {
  const { input, channel, sender } = setUp();
  sender.start();
  channel.isOpen = false;
  input.setField("fog", 0.5);
  channel.isOpen = true;
  input.setField("seed", 7);
  channel.emit("open", null);
  assert.deepEqual(
    channel.sent.map(({ type, seq, fields }) => [type, seq, fields]),
    [
      ["controls", 0, { fog: 0.5, seed: 7 }],
      ["controls", 1, { fog: 0.5, seed: 7 }],
      ["ping", 2, undefined],
    ],
  );
});

test("each long field is a message of its own, also on a new connection", () => {
  const { input, channel, sender } = setUp();
  sender.start();
  const long = '"'.repeat(40_000);
  input.setField("story", long);
  input.setField("plot", long);
  channel.sent = [];
  channel.emit("open", null);
  const fields = channel.sent.filter(({ type }) => type === "controls").map((message) => message.fields);
  assert.deepEqual(fields, [{}, { story: long }, { plot: long }]);
  assert.equal("keys" in channel.sent[1], false, "the devices keep their state");
});

test("a long field that cannot be sent now holds up no key and is sent later", () => {
  const { input, channel, sender } = setUp();
  channel.maxFields = 0;
  input.setField("story", "x".repeat(40_000));
  input.press("KeyW", 1);
  assert.deepEqual(
    channel.sent.map(({ keys }) => keys),
    [[], ["KeyW"]],
  );
  channel.maxFields = 1;
  sender.flush();
  assert.deepEqual(Object.keys(channel.sent[3].fields), ["story"]);
});

test("a blur sends the last edges, then releases everything", () => {
  const { time, input, channel, sender } = setUp();
  input.press("KeyW", 1);
  sender.blur();
  time.advance(16);
  assert.deepEqual(
    channel.sent.map(({ type, keys }) => [type, keys]),
    [
      ["controls", ["KeyW"]],
      ["controls", ["KeyW"]],
      ["blur", undefined],
      ["controls", []],
    ],
  );
});

test("presented frames are sent as a message", () => {
  const { channel, sender } = setUp();
  const body = { viewer: null, clock: { offset: 1, uncertainty: 2 }, timing: false, frames: [] };
  sender.sendPresented(body);
  assert.deepEqual(channel.sent, [{ v: 1, type: "presented", seq: 0, ...body }]);
});
