import assert from "node:assert/strict";
import { test } from "node:test";
import { Problem, Unreachable } from "../../web/js/api.js";
import { unavailability } from "../../web/js/unavailable.js";

/**
 * @param {string} kind
 * @param {string} detail
 */
const problem = (kind, detail) =>
  new Problem({ type: `urn:realtime-engine:problem:${kind}`, title: "", status: 503, detail }, 1);

test("each reason for which there is no session has a title of its own", () => {
  const titles = ["loading", "stalled", "full", "closing", "engine-failed"].map(
    (kind) => unavailability(problem(kind, "Details."))?.title,
  );
  assert.equal(new Set(titles).size, 5);
  assert.ok(!titles.includes(undefined));
});

test("a detail that repeats the title is left out", () => {
  assert.equal(unavailability(problem("closing", "The server is shutting down."))?.detail, "");
  assert.equal(unavailability(problem("full", "All 4 sessions are in use."))?.detail, "All 4 sessions are in use.");
});

test("other errors are none of these reasons", () => {
  assert.equal(unavailability(problem("no-webrtc", "No UDP port is free")), null);
  assert.equal(unavailability(new Unreachable()), null);
});
