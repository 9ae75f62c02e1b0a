/** The REST side of the server: requests, and the problems (RFC 9457) that it answers with. */

/** An error answer of the server. */
export class Problem extends Error {
  /**
   * @param {{status: number, type?: string, title?: string, detail?: string, errors?: object[]}} body
   * @param {number} retryAfter seconds, from the Retry-After header
   */
  constructor(body, retryAfter) {
    super(body.detail || body.title || `The server answered ${body.status}`);
    this.name = "Problem";
    this.status = body.status;
    this.type = body.type ?? "about:blank";
    this.title = body.title ?? "";
    this.errors = Array.isArray(body.errors) ? body.errors : [];
    this.retryAfter = retryAfter;
  }

  /** Whether the session that was asked for no longer exists. */
  get isGone() {
    return this.status === 401 || this.status === 404 || this.status === 410;
  }

  /** @returns {Map<string, string>} sentence for each refused field, by field name. */
  get fields() {
    const named = this.errors.filter((error) => typeof error.pointer === "string");
    return new Map(named.map((error) => [error.pointer.split("/").pop(), error.detail ?? "not accepted"]));
  }
}

/** The server could not be reached at all. */
export class Unreachable extends Error {
  constructor() {
    super("The server cannot be reached");
    this.name = "Unreachable";
  }
}

/**
 * One request; a status of 400 or more is thrown as a {@link Problem}.
 *
 * @param {string} method
 * @param {string | URL} url
 * @param {RequestInit & {token?: string, json?: unknown}} options `json` becomes the body
 * @returns {Promise<Response>}
 */
export async function request(method, url, { token, json, headers = {}, ...rest } = {}) {
  const sent = { ...headers };
  if (token) sent.Authorization = `Bearer ${token}`;
  if (json !== undefined) sent["Content-Type"] = "application/json";
  const body = json === undefined ? rest.body : JSON.stringify(json);
  let response;
  try {
    response = await fetch(url, { ...rest, method, headers: sent, body, cache: "no-store" });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Unreachable();
  }
  if (!response.ok) throw await readProblem(response);
  return response;
}

async function readProblem(response) {
  const body = await response.json().catch(() => ({}));
  const retryAfter = Number.parseInt(response.headers.get("Retry-After") ?? "", 10);
  return new Problem({ ...body, status: response.status }, Number.isFinite(retryAfter) ? retryAfter : 5);
}

/** What the server says about the demo that it serves. */
export async function getDemo() {
  return (await request("GET", resolve("api/demo"))).json();
}

/**
 * Takes one place in the demo.
 *
 * @param {Record<string, unknown>} context
 * @param {AbortSignal} signal
 * @returns {Promise<Place>}
 */
export async function takePlace(context, signal) {
  const response = await request("POST", resolve("api/sessions"), { json: { context }, signal });
  return new Place(await response.json());
}

/** One session on the server, held by its token. */
export class Place {
  #links;

  constructor({ session_id: id, token, links }) {
    this.id = id;
    this.token = token;
    this.#links = links;
  }

  /** Where a WebRTC offer goes. */
  get whep() {
    return resolve(this.#links.whep);
  }

  /** The address of the WebSocket that brings video. */
  get video() {
    return this.#socket(this.#links.video);
  }

  /** Where video is sent to, or null if the demo takes none. */
  get whip() {
    return this.#links.whip ? resolve(this.#links.whip) : null;
  }

  /** @returns {Promise<string | null>} whose video the session gets */
  async publisher() {
    return (await (await request("GET", resolve(this.#links.self), { token: this.token })).json()).publisher;
  }

  /** Where the MJPEG stream is. */
  get mjpeg() {
    return this.#withToken(this.#links.mjpeg);
  }

  /** The address of the controls WebSocket. */
  get controls() {
    return this.#socket(this.#links.controls);
  }

  /** Throws a {@link Problem} with `isGone` when the session has ended. */
  async check() {
    await request("GET", resolve(this.#links.self), { token: this.token });
  }

  /** Pauses the session, or lets it run on. */
  async setActive(active) {
    await request("PATCH", resolve(this.#links.self), { token: this.token, json: { active } });
  }

  /** Starts the session anew; an empty context means the last one. */
  async reset(context) {
    await request("POST", resolve(this.#links.reset), { token: this.token, json: { context } });
  }

  /** @returns {Promise<Blob>} where the time of the last frames went, for ui.perfetto.dev */
  async trace() {
    return (await request("GET", resolve(this.#links.trace), { token: this.token })).blob();
  }

  /** @returns {Promise<object>} whether the session is recorded, and the files of it */
  async recording() {
    return this.#recording("GET");
  }

  /** Records the session from now on; throws a {@link Problem} where that cannot be. */
  async startRecording() {
    return this.#recording("POST");
  }

  /** Ends the recording; its files are complete then. */
  async stopRecording() {
    return this.#recording("DELETE");
  }

  /** The address of a file, for a link. */
  fileUrl(href) {
    return this.#withToken(href).href;
  }

  /** Gives the place back; also works while the page is being closed. */
  async release() {
    await request("DELETE", resolve(this.#links.self), { token: this.token, keepalive: true });
  }

  async #recording(method) {
    return (await request(method, resolve(this.#links.recording), { token: this.token })).json();
  }

  #socket(link) {
    const url = this.#withToken(link);
    url.protocol = url.protocol.replace("http", "ws");
    return url;
  }

  #withToken(link) {
    const url = resolve(link);
    url.searchParams.set("token", this.token);
    return url;
  }
}

function resolve(link) {
  return new URL(link, rootOf(document.baseURI));
}

/** The server's root: where the page is, or above the folder `demos/NAME/` of a page that a demo brings of its own. */
export function rootOf(address) {
  const url = new URL(address);
  url.pathname = url.pathname.replace(/\/demos\/[^/]+\/.*$/, "/");
  return url;
}
