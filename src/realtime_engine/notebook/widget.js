/** Front end of realtime_engine.notebook: shows the page of the demo in a frame, at an address that the browser reaches. */

/**
 * @typedef {object} Reply
 * @property {number} [port] of the server, on the kernel's loopback address
 * @property {string} [token]
 * @property {number} [height] CSS pixels
 * @property {string} [error]
 * @property {boolean} [closed]
 *
 * @typedef {object} Model of anywidget
 * @property {(message: object) => void} send
 * @property {(type: "msg:custom", listener: (reply: Reply) => void) => void} on
 * @property {(type: "msg:custom", listener: (reply: Reply) => void) => void} off
 *
 * @typedef {{ proxyPort(port: number, options: { cache: boolean }): Promise<string> }} ColabKernel
 */

const LOOPBACK = ["localhost", "127.0.0.1", "[::1]"];

/** Origins of this page and of the pages that contain it: all of them frame the demo. */
function origins() {
  const above = [...(location.ancestorOrigins ?? [])];
  return [...new Set([location.origin, ...above])].filter((origin) => origin.startsWith("http"));
}

/**
 * Returns the address at which this browser reaches a port of the kernel.
 *
 * @param {number} port
 * @returns {Promise<string>}
 * @throws {Error} there is none
 */
export async function addressOf(port) {
  const colab = /** @type {{ google?: { colab?: { kernel?: ColabKernel } } }} */ (globalThis).google?.colab?.kernel;
  if (colab) return withSlash(await colab.proxyPort(port, { cache: true }));
  const proxied = new URL(`${jupyterBase()}proxy/${port}/`, location.origin).href;
  if (await answers(`${proxied}healthz`, {})) return proxied;
  const direct = `${location.protocol}//${location.hostname}:${port}/`;
  if (LOOPBACK.includes(location.hostname) && (await answers(`${direct}healthz`, { mode: "no-cors" }))) return direct;
  throw new Error(
    `Port ${port} of the kernel's machine cannot be reached from this page. Install jupyter-server-proxy where the ` +
      "notebook server runs, and start that server again.",
  );
}

/** @param {string} address */
function withSlash(address) {
  return address.endsWith("/") ? address : `${address}/`;
}

/** Path below which the notebook server serves everything. */
function jupyterBase() {
  const data = document.getElementById("jupyter-config-data")?.textContent;
  return withSlash((data ? JSON.parse(data).baseUrl : null) ?? document.body.dataset.baseUrl ?? "/");
}

/**
 * @param {string} url
 * @param {RequestInit} options
 */
async function answers(url, options) {
  try {
    const response = await fetch(url, { ...options, cache: "no-store" });
    return response.type === "opaque" || (response.ok && (await response.json()).status === "ok");
  } catch {
    return false; // unreachable, or another server's page
  }
}

/**
 * @param {object} view
 * @param {Model} view.model
 * @param {HTMLElement} view.el
 */
function render({ model, el }) {
  const say = (/** @type {string} */ text) => {
    const paragraph = document.createElement("p");
    paragraph.setAttribute("role", "status");
    paragraph.textContent = text;
    el.replaceChildren(paragraph);
  };
  const onReply = async (/** @type {Reply} */ { port, token = "", height, error, closed }) => {
    if (closed) say("The demo is closed. Run the cell again to show it.");
    else if (error) say(error);
    else if (port) {
      try {
        show(el, new URL(`?token=${encodeURIComponent(token)}`, await addressOf(port)), height);
      } catch (failure) {
        say(failure instanceof Error ? failure.message : String(failure));
      }
    }
  };
  model.on("msg:custom", onReply);
  say("Starting the demo");
  model.send({ origins: origins() });
  return () => model.off("msg:custom", onReply);
}

/**
 * @param {HTMLElement} el
 * @param {URL} url
 * @param {number} [height]
 */
function show(el, url, height = 720) {
  const frame = document.createElement("iframe");
  frame.src = url.href;
  frame.title = "Interactive demo";
  frame.allow = "autoplay; fullscreen; gamepad; camera; clipboard-write";
  frame.style.cssText = `display: block; width: 100%; height: ${height}px; border: 0; resize: vertical;`;
  el.replaceChildren(frame);
}

export default { render };
