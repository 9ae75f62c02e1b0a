import assert from "node:assert/strict";
import { beforeEach, test } from "node:test";
import { Emitter } from "../../web/js/emitter.js";
import { Session } from "../../web/js/session.js";
import { Deferred } from "../../web/js/timing.js";
import { FakeTime, fakeFetch, jsonResponse, replace, settled } from "./support.js";

/** @import { Transport } from "../../web/js/transports.js" */

/** @extends {Emitter<{ message: object }>} */
class FakeChannel extends Emitter {
  isOpen = false;
  opened = Promise.resolve(null);

  open() {
    this.isOpen = true;
  }

  close() {
    this.isOpen = false;
  }
}

class FakeViewer {
  id = null;
  /** @type {Deferred<boolean>} */
  started = new Deferred();
  /** @type {Deferred<string>} */
  #ended = new Deferred();
  ended = this.#ended.promise;
  /** @type {boolean | null} */
  expectFrame = null;

  /** @param {Transport} transport */
  constructor(transport) {
    this.transport = transport;
  }

  /**
   * @param {unknown} _grant
   * @param {{ expectFrame: boolean }} options
   */
  start(_grant, { expectFrame }) {
    this.expectFrame = expectFrame;
    return this.started.promise;
  }

  /** @param {string} reason */
  lose(reason) {
    this.#ended.resolve(reason);
  }

  async stop() {
    this.started.resolve(false);
    this.#ended.resolve("");
  }
}

const CREATED = {
  session_id: "s1",
  token: "secret",
  links: { self: "/api/sessions/s1", reset: "/api/sessions/s1/reset", controls: "/controls" },
};

beforeEach(() => {
  replace(globalThis, "RTCPeerConnection", class {});
  replace(globalThis, "VideoDecoder", class {});
});

/**
 * @param {{ forced?: Transport, transports?: Transport[], respond?: (request: string) => Response | null }} [options]
 *   `respond` may replace the response to a request such as "POST /api/sessions"
 */
function setUp({ forced, transports = ["webrtc", "webcodecs", "mjpeg"], respond = () => null } = {}) {
  const time = new FakeTime();
  /** @type {string[]} */
  const requests = [];
  fakeFetch(({ method, path }) => {
    const request = `${method} ${path}`;
    requests.push(request);
    const epoch = 1 + requests.filter((other) => other.endsWith("/reset")).length;
    return respond(request) ?? jsonResponse(200, { ...CREATED, epoch });
  });
  const channel = new FakeChannel();
  /** @type {FakeViewer[]} */
  const viewers = [];
  const createViewer = (/** @type {Transport} */ transport) => {
    const viewer = new FakeViewer(transport);
    viewers.push(viewer);
    return viewer;
  };
  const demo = /** @type {any} */ ({ transports, ice_servers: [] });
  const session = new Session(
    demo,
    /** @type {any} */ (channel),
    /** @type {any} */ (createViewer),
    () => ({}),
    forced ?? null,
  );
  /** @type {string[]} */
  const states = [];
  session.on("state", ({ state, text, seconds }) =>
    states.push(seconds ? `${state}: ${seconds}` : `${state}: ${text}`),
  );
  /** @type {(string | null)[]} */
  const notices = [];
  session.on("fallback", (text) => notices.push(text));
  const event = (/** @type {string} */ name, /** @type {number} */ epoch, more = {}) =>
    channel.emit("message", { type: "event", event: name, epoch, ...more });
  const viewer = () => /** @type {FakeViewer} */ (viewers.at(-1));
  const goLive = async () => {
    session.start();
    await settled();
    viewer().started.resolve(true);
    await settled();
  };
  const advance = async (/** @type {number} */ milliseconds) => {
    time.advance(milliseconds);
    await settled();
  };
  return { session, channel, requests, states, notices, event, viewer, viewers, goLive, advance };
}

test("a session is created and its video shown over the preferred transport", async () => {
  const { session, channel, requests, states, notices, viewer, goLive } = setUp();
  await goLive();
  assert.deepEqual(requests, ["POST /api/sessions"]);
  assert.deepEqual(states, ["connecting: Starting a session", "connecting: Connecting", "live: Live"]);
  assert.equal(viewer().transport, "webrtc");
  assert.equal(viewer().expectFrame, true);
  assert.deepEqual(notices, [null]);
  assert.equal(session.grant?.id, "s1");
  assert(channel.isOpen);
});

test("a transport that cannot connect is replaced by the next one, with the reason", async () => {
  const { session, notices, viewer, viewers } = setUp();
  session.start();
  await settled();
  viewer().started.reject(new Error("WebRTC could not connect"));
  await settled();
  viewer().started.reject(new Error("WebCodecs could not connect"));
  await settled();
  assert.deepEqual(
    viewers.map(({ transport }) => transport),
    ["webrtc", "webcodecs", "mjpeg"],
  );
  assert.deepEqual(notices, [
    null,
    "WebRTC could not connect. Using WebCodecs instead.",
    "WebRTC could not connect. WebCodecs could not connect. Using MJPEG instead.",
  ]);
  session.retryWebrtc();
  assert.equal(notices.at(-1), null);
  assert.equal(session.transport, "webrtc");
});

test("transports that the browser or the server does not support are skipped", async () => {
  replace(globalThis, "RTCPeerConnection", undefined);
  const { session, notices, viewer } = setUp({ transports: ["webrtc", "mjpeg"] });
  session.start();
  await settled();
  assert.equal(viewer().transport, "mjpeg");
  assert.deepEqual(notices, ["This browser does not support WebRTC. Using MJPEG instead."]);
});

test("a forced transport has no fallback", async () => {
  const { session, states, viewer, viewers, advance } = setUp({ forced: "webcodecs" });
  session.start();
  await settled();
  viewer().started.reject(new Error("WebCodecs could not connect."));
  await settled();
  assert.equal(states.at(-1), "reconnecting: WebCodecs could not connect. Retrying");
  await advance(500);
  assert.deepEqual(
    viewers.map(({ transport }) => transport),
    ["webcodecs", "webcodecs"],
  );
});

test("a lost connection is reopened in the same session", async () => {
  const { requests, states, viewer, viewers, goLive, advance } = setUp();
  await goLive();
  viewer().lose("the connection was lost");
  await settled();
  assert.equal(states.at(-1), "reconnecting: Reconnecting: the connection was lost");
  await advance(500);
  assert.deepEqual(requests, ["POST /api/sessions", "GET /api/sessions/s1"]);
  assert.equal(viewers.length, 2);
});

test("a session that is gone is replaced", async () => {
  let isGone = false;
  const { requests, states, viewer, goLive, advance } = setUp({
    respond: (request) => (isGone && request.startsWith("GET") ? jsonResponse(404, {}) : null),
  });
  await goLive();
  isGone = true;
  viewer().lose("the connection was lost");
  await settled();
  await advance(500);
  assert.equal(states.at(-1), "reconnecting: The session has ended. Starting a new one");
  await advance(500);
  assert.deepEqual(requests, ["POST /api/sessions", "GET /api/sessions/s1", "POST /api/sessions"]);
});

test("a busy server is asked again after the time that it names", async () => {
  let isBusy = true;
  const { session, requests, states, viewers, advance } = setUp({
    respond: () => (isBusy ? jsonResponse(503, { detail: "All sessions are in use." }, { "Retry-After": "2" }) : null),
  });
  session.start();
  await settled();
  isBusy = false;
  await advance(1000);
  assert.deepEqual(states, ["connecting: Starting a session", "waiting: 2", "waiting: 1"]);
  await advance(1000);
  assert.deepEqual(requests, ["POST /api/sessions", "POST /api/sessions"]);
  assert.equal(viewers.length, 1);
});

test("a session is live once its controls are connected, or after three seconds without them", async () => {
  const { channel, states, goLive, advance } = setUp();
  /** @type {Deferred<null>} */
  const connected = new Deferred();
  channel.opened = connected.promise;
  await goLive();
  assert.equal(states.at(-1), "connecting: Connecting");
  connected.resolve(null);
  await settled();
  assert.equal(states.at(-1), "live: Live");

  const other = setUp();
  other.channel.opened = new Deferred().promise;
  await other.goLive();
  await other.advance(3000);
  assert.equal(other.states.at(-1), "live: Live");
  await advance(0);
});

test("a rejected context ends the session with the fields to correct", async () => {
  const errors = [{ pointer: "#/context/seed", detail: "too large" }];
  const { session, states } = setUp({ respond: () => jsonResponse(422, { detail: "Invalid context", errors }) });
  /** @type {string[]} */
  const fields = [];
  session.on("invalid", (problem) => fields.push(...problem.fields.keys()));
  session.start();
  await settled();
  assert.deepEqual(fields, ["seed"]);
  assert.deepEqual(states, ["connecting: Starting a session"]);
});

test("a fatal failure ends the session; it can be started again", async () => {
  const { session, channel, requests, states, event, viewer, viewers, goLive } = setUp();
  await goLive();
  event("failed", 1, { error: "ValueError: bad chunk", fatal: true });
  await settled();
  assert.equal(states.at(-1), "ended: ValueError: bad chunk");
  assert.equal(session.grant, null);
  assert.equal(channel.isOpen, false);
  assert.equal(requests.at(-1), "DELETE /api/sessions/s1");
  await goLive();
  assert.equal(states.at(-1), "live: Live");
  assert.equal(viewers.length, 2);
  assert.equal(viewer().expectFrame, true);
});

test("a failure that is not fatal does not end the session", async () => {
  const { session, states, event, goLive } = setUp();
  await goLive();
  event("failed", 1, { error: "ValueError: bad chunk", fatal: false });
  await settled();
  assert.equal(states.at(-1), "live: Live");
  assert.equal(session.grant?.id, "s1");
});

test("closing stops the viewer and ends the session on the server", async () => {
  const { session, requests, viewer, goLive } = setUp();
  await goLive();
  session.close();
  await settled();
  assert.equal(await viewer().ended, "");
  assert.equal(requests.at(-1), "DELETE /api/sessions/s1");
});

test("no frame is expected from a paused or finished session", async () => {
  const { session, event, viewer, goLive, advance } = setUp();
  const reconnect = async () => {
    viewer().lose("the connection was lost");
    await settled();
    await advance(500);
    viewer().started.resolve(true);
    await settled();
    return viewer().expectFrame;
  };
  await goLive();
  await session.setActive(false);
  assert.equal(await reconnect(), false);
  event("active_changed", 1, { active: true });
  assert.equal(await reconnect(), true);
  event("finished", 1);
  assert.equal(await reconnect(), false);
});

test("a rollout is finished until the reset, whatever the order of the messages", async () => {
  const { session, event, goLive } = setUp();
  await goLive();
  event("attached", 1);
  assert.equal(session.isFinished, false);
  event("finished", 1);
  assert.equal(session.isFinished, true);
  await session.reset({});
  assert.equal(session.isFinished, false, "the response to the reset names epoch 2");
  event("finished", 1);
  assert.equal(session.isFinished, false, "a late message of epoch 1");
  event("finished", 2);
  event("reset_done", 2);
  assert.equal(session.isFinished, true, "a late message of the reset to epoch 2");
});

test("a new session is not finished", async () => {
  const { session, event, goLive } = setUp();
  await goLive();
  event("finished", 1);
  event("failed", 1, { error: "ended", fatal: true });
  await goLive();
  assert.equal(session.isFinished, false);
});
