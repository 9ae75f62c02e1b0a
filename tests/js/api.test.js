import assert from "node:assert/strict";
import { test } from "node:test";
import {
  createSession,
  getDemo,
  messageOf,
  Problem,
  request,
  SessionGrant,
  Ticket,
  Unreachable,
} from "../../web/js/api.js";
import { rootOf } from "../../web/js/server.js";
import { fakeFetch, jsonResponse, replace } from "./support.js";

const LINKS = {
  self: "/api/sessions/s1",
  leave: "/api/sessions/s1/leave",
  invitations: "/api/sessions/s1/invitations",
  qr: "/api/sessions/s1/qr",
  takeover: "/api/sessions/s1/takeover",
  reset: "/api/sessions/s1/reset",
  whep: "/api/sessions/s1/whep",
  mjpeg: "/api/sessions/s1/stream.mjpeg",
  video: "/api/sessions/s1/video",
  controls: "/api/sessions/s1/controls",
  trace: "/api/sessions/s1/trace",
};
const GRANT = { session_id: "s1", token: "secret", links: LINKS };

for (const [address, root] of [
  ["http://a.example/", "http://a.example/"],
  ["http://a.example/index.html?transport=mjpeg", "http://a.example/index.html?transport=mjpeg"],
  ["http://a.example/demos/pond/", "http://a.example/"],
  ["http://a.example/demos/pond/index.html", "http://a.example/"],
  ["http://a.example/demos/pond/nested/path/", "http://a.example/"],
  ["http://a.example/prefix/demos/pond/", "http://a.example/prefix/"],
  ["http://a.example/demos/outer/demos/pond/", "http://a.example/demos/outer/"],
  ["http://a.example/demos/pond/demos/pond/", "http://a.example/demos/pond/"],
  ["http://a.example/demos/", "http://a.example/demos/"],
]) {
  test(`the root of ${address} is ${root}`, () => {
    assert.equal(rootOf(address).href, root);
  });
}

test("a custom page requests the demo from the root of the server", async () => {
  /** @type {string[]} */
  const paths = [];
  fakeFetch(({ path }) => {
    paths.push(path);
    return jsonResponse(200, { name: "maze" });
  });
  replace(globalThis, "document", { baseURI: "http://host.example/prefix/demos/maze/", querySelector: () => null });
  assert.equal((await getDemo()).name, "maze");
  assert.deepEqual(paths, ["/prefix/api/demo"]);
});

test("the page of a demo in a gallery declares its own folder as the root", async () => {
  /** @type {string[]} */
  const paths = [];
  fakeFetch(({ path }) => {
    paths.push(path);
    return jsonResponse(200, { name: "maze" });
  });
  const meta = { getAttribute: () => "./" };
  replace(globalThis, "document", { baseURI: "http://host.example/demos/maze/", querySelector: () => meta });
  await getDemo();
  assert.deepEqual(paths, ["/demos/maze/api/demo"]);
});

test("a request sends its token and its body as JSON", async () => {
  fakeFetch(({ method, headers, body }) => {
    assert.equal(method, "POST");
    assert.deepEqual(headers, { "X-A": "1", Authorization: "Bearer secret", "Content-Type": "application/json" });
    assert.equal(body, '{"a":1}');
    return jsonResponse(200, {});
  });
  await request("POST", "http://host.example/x", { token: "secret", json: { a: 1 }, headers: { "X-A": "1" } });
});

test("an error response becomes a Problem", async () => {
  const errors = [
    { pointer: "#/context/seed", detail: "too large" },
    { pointer: "#/context/fog" },
    { detail: "no pointer" },
  ];
  fakeFetch(() => jsonResponse(422, { title: "Invalid context", detail: "Two fields are invalid.", errors }));
  await assert.rejects(request("GET", "http://host.example/x"), (error) => {
    assert(error instanceof Problem);
    assert.equal(error.message, "Two fields are invalid.");
    assert.equal(error.status, 422);
    assert.equal(error.isGone, false);
    assert.deepEqual(
      [...error.fields],
      [
        ["seed", "too large"],
        ["fog", "Invalid value"],
      ],
    );
    return true;
  });
});

test("an error response without a body becomes a Problem with its status", async () => {
  fakeFetch(() => new Response("<p>Bad gateway</p>", { status: 502 }));
  await assert.rejects(request("GET", "http://host.example/x"), {
    name: "Problem",
    status: 502,
    message: "The server responded with status 502",
    retryAfter: 5,
  });
});

for (const [header, seconds] of /** @type {const} */ ([
  ["7", 7],
  ["Wed, 21 Oct 2026 07:28:00 GMT", 5],
  [null, 5],
])) {
  test(`Retry-After: ${header} means ${seconds} s`, async () => {
    /** @type {Record<string, string>} */
    const headers = header === null ? {} : { "Retry-After": header };
    fakeFetch(() => jsonResponse(503, { detail: "All sessions are in use." }, headers));
    await assert.rejects(createSession({}, null, new AbortController().signal), { status: 503, retryAfter: seconds });
  });
}

for (const [kind, status] of /** @type {const} */ ([
  ["token", 401],
  ["no-session", 404],
  ["session-over", 410],
  ["turn-over", 410],
  ["ticket-over", 410],
])) {
  test(`${kind} means that the session or ticket is gone; the same status of a proxy does not`, () => {
    assert(new Problem({ status, type: `urn:realtime-engine:problem:${kind}` }, 5).isGone);
    assert(!new Problem({ status }, 5).isGone);
  });
}

test("a failed connection is reported as unreachable, an aborted one as aborted", async () => {
  replace(globalThis, "fetch", async () => {
    throw new TypeError("fetch failed");
  });
  await assert.rejects(request("GET", "http://host.example/x"), Unreachable);
  fakeFetch(() => jsonResponse(200, {}));
  await assert.rejects(request("GET", "http://host.example/x", { signal: AbortSignal.abort() }), {
    name: "AbortError",
  });
});

test("a session is created with its context", async () => {
  fakeFetch(({ method, path, body }) => {
    assert.deepEqual([method, path, body], ["POST", "/api/sessions", '{"context":{"seed":7}}']);
    return jsonResponse(201, GRANT);
  });
  const grant = await createSession({ seed: 7 }, null, new AbortController().signal);
  assert(grant instanceof SessionGrant);
  assert.deepEqual([grant.id, grant.token], ["s1", "secret"]);
});

test("without a place, a ticket is returned, with which the place is claimed", async () => {
  fakeFetch(({ method, path, body }) => {
    if (method === "GET") return jsonResponse(200, { state: "reserved", position: 1, estimated_wait_s: 0 });
    if (method === "DELETE") return new Response(null, { status: 204 });
    assert.deepEqual([path, body], ["/api/sessions", '{"context":{},"ticket":"t1"}']);
    const links = { self: "/api/tickets/t1", events: "/api/tickets/t1/events" };
    return jsonResponse(202, { ticket: "t1", state: "waiting", position: 2, estimated_wait_s: 60, links });
  });
  const ticket = await createSession({}, "t1", new AbortController().signal);
  assert(ticket instanceof Ticket);
  assert.deepEqual(ticket.status, { state: "waiting", position: 2, estimated_wait_s: 60 });
  assert.equal(ticket.events.pathname, "/api/tickets/t1/events");
  await ticket.refresh();
  assert.equal(ticket.status.state, "reserved");
  await ticket.leave();
});

test("the URLs of a session are absolute, and carry the token where a header cannot", () => {
  replace(globalThis, "document", { baseURI: "https://host.example/prefix/", querySelector: () => null });
  const grant = new SessionGrant(GRANT);
  assert.equal(grant.whep.href, "https://host.example/api/sessions/s1/whep");
  assert.equal(grant.mjpeg.href, "https://host.example/api/sessions/s1/stream.mjpeg?token=secret");
  assert.equal(grant.controls.href, "wss://host.example/api/sessions/s1/controls?token=secret");
  assert.equal(grant.video.href, "wss://host.example/api/sessions/s1/video?token=secret");
  assert.equal(grant.fileUrl("/file.mp4"), "https://host.example/file.mp4?token=secret");
  assert.equal(grant.whip, null);
  assert.equal(new SessionGrant({ ...GRANT, links: { ...LINKS, whip: "/whip" } }).whip?.pathname, "/whip");
});

test("the requests of a session", async () => {
  /** @type {unknown[]} */
  const requests = [];
  fakeFetch(({ method, path, headers, body }) => {
    assert.equal(headers.Authorization, "Bearer secret");
    requests.push([method, path, body ?? null]);
    return jsonResponse(200, { epoch: 3, state: "recording" });
  });
  const grant = new SessionGrant({ ...GRANT, links: { ...LINKS, recording: "/api/sessions/s1/recording" } });
  await grant.describe();
  await grant.setActive(false);
  assert.equal(await grant.reset({ seed: 1 }), 3);
  await grant.trace();
  assert.equal((await grant.recording()).state, "recording");
  await grant.startRecording();
  await grant.stopRecording();
  await grant.release();
  assert.deepEqual(requests, [
    ["GET", "/api/sessions/s1", null],
    ["PATCH", "/api/sessions/s1", '{"active":false}'],
    ["POST", "/api/sessions/s1/reset", '{"context":{"seed":1}}'],
    ["GET", "/api/sessions/s1/trace", null],
    ["GET", "/api/sessions/s1/recording", null],
    ["POST", "/api/sessions/s1/recording", null],
    ["DELETE", "/api/sessions/s1/recording", null],
    ["DELETE", "/api/sessions/s1", null],
  ]);
  await assert.rejects(new SessionGrant(GRANT).recording(), /does not record/);
});

test("anything that is thrown has a message", () => {
  assert.equal(messageOf(new Error("failed")), "failed");
  assert.equal(messageOf("failed"), "failed");
});
