import assert from "node:assert/strict";
import { beforeEach, test } from "node:test";
import { Emitter } from "../../web/js/emitter.js";
import { Session } from "../../web/js/session.js";
import { storedGrant, storedTicket } from "../../web/js/storage.js";
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

/** @type {FakeEventSource[]} */
let streams = [];

class FakeEventSource extends EventTarget {
  static OPEN = 1;
  readyState = 1;
  isClosed = false;

  /** @param {URL} url */
  constructor(url) {
    super();
    this.url = url;
    streams.push(this);
  }

  close() {
    this.isClosed = true;
  }

  /** @param {object} status */
  send(status) {
    this.dispatchEvent(new MessageEvent("ticket", { data: JSON.stringify(status) }));
  }
}

class FakeStorage {
  /** @type {Map<string, string>} */
  #items = new Map();

  /** @param {string} key */
  getItem(key) {
    return this.#items.get(key) ?? null;
  }

  /**
   * @param {string} key
   * @param {string} value
   */
  setItem(key, value) {
    this.#items.set(key, value);
  }

  /** @param {string} key */
  removeItem(key) {
    this.#items.delete(key);
  }
}

const CREATED = {
  session_id: "s1",
  token: "secret",
  links: {
    self: "/api/sessions/s1",
    leave: "/api/sessions/s1/leave",
    reset: "/api/sessions/s1/reset",
    controls: "/controls",
  },
};

const TICKET = {
  ticket: "t1",
  state: "waiting",
  position: 2,
  estimated_wait_s: 60,
  links: { self: "/api/tickets/t1", events: "/api/tickets/t1/events" },
};

beforeEach(() => {
  streams = [];
  replace(globalThis, "RTCPeerConnection", class {});
  replace(globalThis, "VideoDecoder", class {});
  replace(globalThis, "EventSource", FakeEventSource);
  replace(globalThis, "sessionStorage", new FakeStorage());
});

/**
 * @param {{ forced?: Transport, transports?: Transport[], invitation?: string, respond?: (request: string) => Response | null }} [options]
 *   `respond` may replace the response to a request such as "POST /api/sessions"
 */
function setUp({ forced, transports = ["webrtc", "webcodecs", "mjpeg"], invitation, respond = () => null } = {}) {
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
  const demo = /** @type {any} */ ({ transports, ice_servers: [], received: Number.POSITIVE_INFINITY });
  const session = new Session(
    demo,
    /** @type {any} */ (channel),
    /** @type {any} */ (createViewer),
    () => ({}),
    forced ?? null,
    invitation ?? null,
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

test("a session that is gone is replaced, by a server that may have another demo", async () => {
  let isGone = false;
  const { requests, states, viewer, goLive, advance } = setUp({
    respond: (request) =>
      isGone && request.startsWith("GET")
        ? jsonResponse(410, { type: "urn:realtime-engine:problem:session-over" })
        : null,
  });
  await goLive();
  isGone = true;
  viewer().lose("the connection was lost");
  await settled();
  await advance(500);
  assert.equal(states.at(-1), "reconnecting: The session has ended. Starting a new one");
  await advance(1000);
  assert.deepEqual(requests.slice(0, 3), ["POST /api/sessions", "GET /api/sessions/s1", "POST /api/sessions"]);
  assert.deepEqual(requests.slice(3), ["GET /api/demo"]);
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

/** A server whose only session is in use until `isFree` is set. */
function setUpLine() {
  const server = { isFree: false, ticketState: "waiting" };
  const set = setUp({
    respond: (request) => {
      if (request === "POST /api/sessions" && !server.isFree) return jsonResponse(202, TICKET);
      if (request === "GET /api/tickets/t1") return jsonResponse(200, { ...TICKET, state: server.ticketState });
      return null;
    },
  });
  /** @type {string[]} */
  const line = [];
  set.session.on("line", ({ state, position }) => line.push(`${state} ${position}`));
  return { ...set, server, line };
}

test("the user waits in line, and the place is claimed when it is reserved", async () => {
  const { session, requests, viewers, line, server } = setUpLine();
  session.start();
  await settled();
  assert.deepEqual(line, ["waiting 2"]);
  streams[0].send({ state: "waiting", position: 1, estimated_wait_s: 30 });
  await settled();
  assert.deepEqual(line, ["waiting 2", "waiting 1"]);
  assert.equal(storedTicket.value, "t1");
  server.isFree = true;
  streams[0].send({ state: "reserved", position: 1, estimated_wait_s: 0, claim_within_s: 10 });
  await settled();
  assert.deepEqual(requests, ["POST /api/sessions", "POST /api/sessions"]);
  assert.equal(viewers.length, 1);
  assert(streams[0].isClosed);
  assert.equal(storedTicket.value, null);
});

test("without an event stream, the ticket is asked for", async () => {
  const { session, requests, line, server, advance } = setUpLine();
  session.start();
  await settled();
  streams[0].readyState = 0;
  server.ticketState = "reserved";
  server.isFree = true;
  await advance(2000);
  assert.deepEqual(line, ["waiting 2"]);
  assert.deepEqual(requests, ["POST /api/sessions", "GET /api/tickets/t1", "POST /api/sessions"]);
});

test("a ticket that has expired is replaced by a new one", async () => {
  const { session, requests, line } = setUpLine();
  session.start();
  await settled();
  streams[0].send({ state: "expired", position: 0, estimated_wait_s: 0 });
  await settled();
  assert.deepEqual(requests, ["POST /api/sessions", "POST /api/sessions"]);
  assert.deepEqual(line, ["waiting 2", "waiting 2"]);
  assert.equal(streams.length, 2);
});

test("the user may leave the line", async () => {
  const { session, requests, states, advance } = setUpLine();
  session.start();
  await settled();
  session.leaveLine();
  await settled();
  assert.equal(requests.at(-1), "DELETE /api/tickets/t1");
  assert.equal(states.at(-1), "ended: You have left the line.");
  assert(streams[0].isClosed);
  await advance(10_000);
  assert.equal(requests.length, 2);
});

test("a turn that is over is not followed by another one", async () => {
  const { session, channel, requests, states, viewer, goLive, advance } = setUp({
    respond: (request) =>
      request.startsWith("GET")
        ? jsonResponse(410, { type: "urn:realtime-engine:problem:turn-over", detail: "Over." })
        : null,
  });
  /** @type {(number | null)[]} */
  const turns = [];
  session.on("turn", ({ seconds }) => turns.push(seconds));
  let turnsOver = 0;
  session.on("turnOver", () => {
    turnsOver += 1;
  });
  await goLive();
  channel.emit("message", { type: "turn", ends_in_s: 10, reason: "turn" });
  viewer().lose("the session has ended");
  await settled();
  await advance(20_000);
  assert.equal(turnsOver, 1);
  assert.equal(states.at(-1), "reconnecting: Reconnecting: the session has ended");
  assert.deepEqual(turns, [10, null]);
  assert.equal(requests.filter((request) => request.startsWith("POST")).length, 1);
});

for (const [status, type] of /** @type {const} */ ([
  [410, "urn:realtime-engine:problem:session-over"],
  [404, "about:blank"],
])) {
  test(`a session that is lost at once with status ${status} is no reason for another one`, async () => {
    const { session, requests, states, viewer, advance } = setUp({
      forced: "mjpeg",
      respond: (request) => (request.startsWith("GET") ? jsonResponse(status, { type, detail: "Not here." }) : null),
    });
    session.start();
    await settled();
    viewer().started.resolve(false);
    viewer().lose("nothing arrived");
    await settled();
    await advance(20_000);
    assert.equal(states.at(-1), "ended: Not here.");
    assert.deepEqual(
      requests.filter((request) => request.startsWith("POST")),
      ["POST /api/sessions"],
    );
  });
}

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

test("a page that is left stops the viewer and keeps the session for a while", async () => {
  const { session, requests, viewer, goLive } = setUp();
  await goLive();
  session.leave();
  await settled();
  assert.equal(await viewer().ended, "");
  assert.equal(requests.at(-1), "POST /api/sessions/s1/leave");
  assert.equal(storedGrant.value?.session_id, "s1");
});

test("a reloaded page returns to its session", async () => {
  const { session, channel, requests, viewer, goLive } = setUp({
    respond: (request) =>
      request.startsWith("GET")
        ? jsonResponse(200, { epoch: 3, state: "finished", active: false, fields: { seed: 7 }, publisher: null })
        : null,
  });
  /** @type {Record<string, unknown>[]} */
  const restored = [];
  storedGrant.value = /** @type {any} */ (CREATED);
  session.on("restored", ({ fields }) => restored.push(fields));
  await goLive();
  assert.deepEqual(requests, ["GET /api/sessions/s1"]);
  assert.deepEqual(restored, [{ seed: 7 }]);
  assert.deepEqual([session.active, session.isFinished, channel.isOpen], [false, true, true]);
  assert.equal(viewer().expectFrame, false);
});

/** @param {(request: string) => Response | null} respond */
function setUpGuest(respond) {
  return setUp({ forced: "mjpeg", invitation: "s1.secret", respond });
}

test("an invited user joins once, also after a reload, and does not end the session", async () => {
  const { session, requests, goLive } = setUpGuest((request) =>
    request === "POST /api/invitations" ? jsonResponse(201, { ...CREATED, role: "viewer" }) : null,
  );
  await goLive();
  assert.deepEqual(requests, ["POST /api/invitations"]);
  session.leave();
  await settled();
  session.start();
  await settled();
  assert.deepEqual(requests, ["POST /api/invitations", "POST /api/sessions/s1/leave", "GET /api/sessions/s1"]);
});

test("a guest whose invitation is revoked reads why", async () => {
  let isRevoked = false;
  const { states, viewer, goLive, advance } = setUpGuest((request) => {
    if (request === "POST /api/invitations") return jsonResponse(201, { ...CREATED, role: "viewer" });
    return isRevoked
      ? jsonResponse(401, { type: "urn:realtime-engine:problem:token", detail: "Send the session's token." })
      : null;
  });
  await goLive();
  isRevoked = true;
  viewer().lose("the connection was lost");
  await settled();
  await advance(20_000);
  await settled();
  assert.equal(states.at(-1), "ended: The owner has stopped sharing the session.");
});

test("a watched session that ends is not replaced", async () => {
  let isGone = false;
  const { requests, states, viewer, goLive, advance } = setUpGuest((request) => {
    if (request === "POST /api/invitations") return jsonResponse(201, CREATED);
    return isGone
      ? jsonResponse(410, { type: "urn:realtime-engine:problem:session-over", detail: "It has ended." })
      : null;
  });
  await goLive();
  isGone = true;
  viewer().lose("the connection was lost");
  await settled();
  await advance(20_000);
  assert.equal(states.at(-1), "ended: It has ended.");
  assert.deepEqual(requests, ["POST /api/invitations", "GET /api/sessions/s1"]);
});

test("a session that ended while the page was closed is replaced", async () => {
  const { requests, goLive } = setUp({
    respond: (request) =>
      request === "GET /s0" ? jsonResponse(410, { type: "urn:realtime-engine:problem:session-over" }) : null,
  });
  storedGrant.value = /** @type {any} */ ({ ...CREATED, session_id: "s0", links: { ...CREATED.links, self: "/s0" } });
  await goLive();
  assert.deepEqual(requests, ["GET /s0", "POST /api/sessions"]);
  assert.equal(storedGrant.value?.session_id, "s1");
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
