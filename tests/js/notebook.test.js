import assert from "node:assert/strict";
import { test } from "node:test";
import { addressOf } from "../../src/realtime_engine/notebook/widget.js";
import { replace } from "./support.js";

/**
 * @param {string} page address of the notebook
 * @param {string[]} reachable addresses that answer
 * @param {object} [more]
 * @param {string} [more.config] text of the configuration of JupyterLab
 * @param {string} [more.baseUrl] of the page of a classic notebook
 */
function open(page, reachable, { config, baseUrl } = {}) {
  replace(globalThis, "location", new URL(page));
  replace(globalThis, "document", {
    getElementById: () => (config === undefined ? null : { textContent: config }),
    body: { dataset: { baseUrl } },
  });
  replace(globalThis, "fetch", async (/** @type {string} */ url, /** @type {RequestInit} */ { mode }) => {
    if (!reachable.includes(url)) {
      if (mode === "no-cors") throw new TypeError("Failed to fetch");
      return new Response("not found", { status: 404 });
    }
    return new Response(JSON.stringify({ status: "ok" }));
  });
}

test("jupyter-server-proxy is used where it answers, below the path of the notebook server", async () => {
  const proxied = "https://hub.example/user/me/proxy/5000/";
  open("https://hub.example/user/me/lab/tree/a.ipynb", [`${proxied}healthz`], { config: '{"baseUrl": "/user/me/"}' });
  assert.equal(await addressOf(5000), proxied);
  open("https://hub.example/user/me/notebooks/a.ipynb", [`${proxied}healthz`], { baseUrl: "/user/me/" });
  assert.equal(await addressOf(5000), proxied);
});

test("a notebook on this machine needs no proxy, and keeps the name of the host for its cookie", async () => {
  open("http://localhost:8888/lab", ["http://localhost:5000/healthz"]);
  assert.equal(await addressOf(5000), "http://localhost:5000/");
  open("http://127.0.0.1:8888/lab", ["http://127.0.0.1:5000/healthz"]);
  assert.equal(await addressOf(5000), "http://127.0.0.1:5000/");
});

test("Colab names the address of a port", async () => {
  open("https://colab.example/drive/1", []);
  const proxyPort = async (/** @type {number} */ port) => `https://${port}-kernel.example`;
  replace(globalThis, "google", { colab: { kernel: { proxyPort } } });
  assert.equal(await addressOf(5000), "https://5000-kernel.example/");
});

test("a port that cannot be reached is an error that says what to install", async () => {
  for (const page of ["https://hub.example/lab", "http://localhost:8888/lab"]) {
    open(page, []);
    await assert.rejects(addressOf(5000), /Install jupyter-server-proxy/);
  }
});
