import assert from "node:assert/strict";
import { test } from "node:test";
import { Backoff, Deadline, Deferred, sleep, visible } from "../../web/js/timing.js";
import { FakeTime, replace, settled } from "./support.js";

test("a sleep ends after its time", async () => {
  const time = new FakeTime();
  let isOver = false;
  sleep(100, new AbortController().signal).then(() => {
    isOver = true;
  });
  time.advance(99);
  await settled();
  assert.equal(isOver, false);
  time.advance(1);
  await settled();
  assert.equal(isOver, true);
});

test("a sleep is interrupted by its signal", async () => {
  const time = new FakeTime();
  const controller = new AbortController();
  const asleep = sleep(100, controller.signal);
  controller.abort();
  await assert.rejects(asleep, { name: "AbortError" });
  await assert.rejects(sleep(100, controller.signal), { name: "AbortError" });
  assert.equal(time.pending, 0);
});

test("delays double up to the maximum, and start over after a reset", () => {
  replace(Math, "random", () => 1);
  const backoff = new Backoff(500, 3000);
  assert.deepEqual(
    Array.from({ length: 5 }, () => backoff.next()),
    [500, 1000, 2000, 3000, 3000],
  );
  backoff.reset();
  assert.equal(backoff.next(), 500);
});

test("up to a quarter is taken off a delay", () => {
  replace(Math, "random", () => 0);
  assert.equal(new Backoff(500).next(), 375);
});

test("a deadline expires with its newest message", () => {
  const time = new FakeTime();
  /** @type {string[]} */
  const errors = [];
  const deadline = new Deadline((error) => errors.push(error.message));
  deadline.set(100, "first");
  time.advance(99);
  deadline.set(100, "second");
  time.advance(99);
  assert.deepEqual(errors, []);
  time.advance(1);
  assert.deepEqual(errors, ["second"]);
  deadline.set(100, "third");
  deadline.clear();
  time.advance(100);
  assert.deepEqual(errors, ["second"]);
});

test("a deferred promise is settled by the first call", async () => {
  /** @type {Deferred<number>} */
  const deferred = new Deferred();
  deferred.resolve(1);
  deferred.resolve(2);
  deferred.reject(new Error("too late"));
  assert.equal(await deferred.promise, 1);
});

test("a hidden page is waited for", async () => {
  const document = Object.assign(new EventTarget(), { hidden: true });
  replace(globalThis, "document", document);
  let isVisible = false;
  visible().then(() => {
    isVisible = true;
  });
  document.dispatchEvent(new Event("visibilitychange"));
  await settled();
  assert.equal(isVisible, false);
  document.hidden = false;
  document.dispatchEvent(new Event("visibilitychange"));
  await settled();
  assert.equal(isVisible, true);
  await visible();
});
