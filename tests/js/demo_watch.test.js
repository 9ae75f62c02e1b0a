import assert from "node:assert/strict";
import { beforeEach, test } from "node:test";
import { getDemo } from "../../web/js/api.js";
import { refreshDemo } from "../../web/js/demo_watch.js";
import { FakeTime, fakeFetch, jsonResponse, replace, settled } from "./support.js";

/** @type {FakeTime} */
let time;
/** @type {{ body: Record<string, unknown>, status: number, requests: number }} */
let server;
/** @type {Map<string, string>} */
let storage;
let reloads = 0;

beforeEach(() => {
  time = new FakeTime();
  server = { body: { revision: "a", ice_servers: ["old"] }, status: 200, requests: 0 };
  storage = new Map();
  reloads = 0;
  fakeFetch(({ path }) => {
    assert.equal(path, "/api/demo");
    server.requests += 1;
    return jsonResponse(server.status, server.body);
  });
  replace(globalThis, "location", { reload: () => (reloads += 1) });
  replace(Date, "now", () => 1e12 + time.now);
  replace(globalThis, "sessionStorage", {
    getItem: (/** @type {string} */ key) => storage.get(key) ?? null,
    setItem: (/** @type {string} */ key, /** @type {string} */ value) => storage.set(key, value),
  });
});

test("a connection after a day uses new relay credentials", async () => {
  const demo = await getDemo();
  server.body = { revision: "a", ice_servers: ["new"] };
  time.advance(86_400_000);
  await refreshDemo(demo);
  assert.deepEqual(demo.ice_servers, ["new"]);
  assert.deepEqual([reloads, server.requests], [0, 2]);
});

test("connections in a row share a description", async () => {
  const demo = await getDemo();
  for (let n = 0; n < 5; n += 1) {
    time.advance(1000);
    await refreshDemo(demo);
  }
  assert.equal(server.requests, 1);
  time.advance(10_000);
  await refreshDemo(demo);
  await refreshDemo(demo);
  assert.equal(server.requests, 2);
});

test("the page reloads if the server has another revision, once a minute", async () => {
  const demo = await getDemo();
  let connections = 0;
  const connect = async () => {
    time.advance(20_000);
    refreshDemo(demo).then(() => (connections += 1));
    await settled();
  };
  server.body = { revision: "b", ice_servers: [] };
  await connect();
  assert.deepEqual([reloads, connections], [1, 0], "no connection with the old description");
  await connect();
  assert.deepEqual([reloads, connections], [1, 1], "two servers that differ cause no loop");
  await connect();
  await connect();
  assert.deepEqual([reloads, connections], [2, 2]);
});

test("a server that cannot be asked changes nothing", async () => {
  const demo = await getDemo();
  server.status = 503;
  time.advance(20_000);
  await refreshDemo(demo);
  assert.deepEqual([demo.revision, demo.ice_servers, reloads], ["a", ["old"], 0]);
});

test("a page without storage does not reload", async () => {
  const demo = await getDemo();
  replace(globalThis, "sessionStorage", undefined);
  server.body = { revision: "b", ice_servers: ["new"] };
  time.advance(20_000);
  await refreshDemo(demo);
  assert.deepEqual([demo.ice_servers, reloads], [["new"], 0]);
});
