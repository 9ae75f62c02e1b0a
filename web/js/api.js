/** Client of the server's HTTP API (docs/http.md). */

/**
 * @typedef {import("./transports.js").Transport} Transport
 *
 * @typedef {object} ControlsDescription what the demo reads
 * @property {{ code: string, label: string, group?: string }[]} keys
 * @property {Record<string, string>} aliases key code to the code that it stands for
 * @property {"lock" | "position" | null} pointer
 * @property {boolean} wheel
 * @property {boolean} gamepad
 * @property {string[]} sticks names of the touch sticks
 * @property {import("./schema.js").Schema | null} fields JSON Schema of the fields
 * @property {Record<string, unknown>} defaults values of the fields
 *
 * @typedef {{ width: number | null, height: number | null }} VideoSize pixels, null where the demo declares none
 *
 * @typedef {object} Demo answer to `GET /api/demo`
 * @property {number} received when it was received, milliseconds of `performance.now()`; not part of the answer
 * @property {string} revision changes with the demo and with the page
 * @property {string} name
 * @property {string} title
 * @property {string} [description]
 * @property {"loading" | "ready" | "failed"} state
 * @property {{ message: string, fraction: number | null } | null} progress of loading the model
 * @property {string | null} error why loading failed
 * @property {VideoSize} video
 * @property {{ max_side: number } | null} [video_input] of a demo that takes video
 * @property {boolean} recording whether the server can record sessions
 * @property {ControlsDescription} controls
 * @property {string[]} required_context names of fields without which no session starts
 * @property {Transport[]} transports that the server offers
 * @property {RTCIceServer[]} ice_servers
 * @property {RTCIceTransportPolicy} [ice_transport_policy]
 * @property {string | null} page path of the demo's custom page
 *
 * @typedef {"self" | "reset" | "whep" | "mjpeg" | "video" | "controls" | "trace"} LinkName
 * @typedef {Record<LinkName, string> & { whip?: string, recording?: string }} SessionLinks
 *
 * @typedef {{ name: string, bytes: number, href: string }} RecordingFile
 *
 * @typedef {object} Recording
 * @property {"none" | "recording" | "stopped"} state
 * @property {string | null} reason why it stopped, if the server stopped it
 * @property {number} seconds
 * @property {RecordingFile[]} files of all recordings of the session, oldest first
 *
 * @typedef {object} ProblemBody problem details (RFC 9457)
 * @property {number} status
 * @property {string} [type]
 * @property {string} [title]
 * @property {string} [detail]
 * @property {{ pointer?: string, detail?: string }[]} [errors]
 */

/** Seconds to wait before a retry when the server names no time. */
const DEFAULT_RETRY_AFTER_S = 5;

/** An error response of the server. */
export class Problem extends Error {
  /**
   * @param {ProblemBody} body
   * @param {number} retryAfter seconds, from the Retry-After header
   */
  constructor(body, retryAfter) {
    super(body.detail || body.title || `The server responded with status ${body.status}`);
    this.name = "Problem";
    this.status = body.status;
    this.errors = Array.isArray(body.errors) ? body.errors : [];
    this.retryAfter = retryAfter;
  }

  /** Whether the requested session no longer exists. */
  get isGone() {
    return this.status === 401 || this.status === 404 || this.status === 410;
  }

  /** @returns {Map<string, string>} message for each rejected field, by field name */
  get fields() {
    /** @type {Map<string, string>} */
    const messages = new Map();
    for (const { pointer, detail } of this.errors) {
      if (typeof pointer === "string")
        messages.set(pointer.slice(pointer.lastIndexOf("/") + 1), detail ?? "Invalid value");
    }
    return messages;
  }
}

/** The server could not be reached. */
export class Unreachable extends Error {
  constructor() {
    super("Cannot reach the server");
    this.name = "Unreachable";
  }
}

/**
 * Returns the message of anything that was thrown.
 *
 * @param {unknown} error
 * @returns {string}
 */
export function messageOf(error) {
  return error instanceof Error ? error.message : String(error);
}

/**
 * Sends a request.
 *
 * @param {string} method
 * @param {string | URL} url
 * @param {object} [options]
 * @param {string} [options.token] bearer token of the session
 * @param {unknown} [options.json] becomes the body
 * @param {Record<string, string>} [options.headers]
 * @param {string} [options.body]
 * @param {AbortSignal} [options.signal]
 * @param {boolean} [options.keepalive]
 * @returns {Promise<Response>}
 * @throws {Problem} for a status of 400 or more
 * @throws {Unreachable} if there is no response
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
    if (error instanceof Error && error.name === "AbortError") throw error;
    throw new Unreachable();
  }
  if (!response.ok) throw await readProblem(response);
  return response;
}

/**
 * @param {Response} response
 * @returns {Promise<Problem>}
 */
async function readProblem(response) {
  const body = await response.json().catch(() => ({}));
  const retryAfter = Number.parseInt(response.headers.get("Retry-After") ?? "", 10);
  return new Problem(
    { ...body, status: response.status },
    Number.isFinite(retryAfter) ? retryAfter : DEFAULT_RETRY_AFTER_S,
  );
}

/**
 * Returns the description of the demo that the server runs.
 *
 * @returns {Promise<Demo>}
 */
export async function getDemo() {
  const demo = await (await request("GET", resolve("api/demo"))).json();
  return { ...demo, received: performance.now() };
}

/**
 * Creates a session.
 *
 * @param {Record<string, unknown>} context values of the fields
 * @param {AbortSignal} signal
 * @returns {Promise<SessionGrant>}
 * @throws {Problem} 503 if all sessions are in use, 422 if a field is rejected
 */
export async function createSession(context, signal) {
  const response = await request("POST", resolve("api/sessions"), { json: { context }, signal });
  return new SessionGrant(await response.json());
}

/** A session on the server, with the token that gives access to it. */
export class SessionGrant {
  #links;

  /** @param {{ session_id: string, token: string, links: SessionLinks }} grant answer to `POST /api/sessions` */
  constructor({ session_id: id, token, links }) {
    this.id = id;
    this.token = token;
    this.#links = links;
  }

  /** URL that takes a WHEP offer. */
  get whep() {
    return resolve(this.#links.whep);
  }

  /** URL of the video WebSocket. */
  get video() {
    return this.#socketUrl(this.#links.video);
  }

  /** URL that takes a WHIP offer, or null if the demo takes no video. */
  get whip() {
    return this.#links.whip ? resolve(this.#links.whip) : null;
  }

  /** URL of the MJPEG stream. */
  get mjpeg() {
    return this.#urlWithToken(this.#links.mjpeg);
  }

  /** URL of the controls WebSocket. */
  get controls() {
    return this.#socketUrl(this.#links.controls);
  }

  /**
   * Returns the state of the session; `publisher` is the connection that sends it video.
   *
   * @returns {Promise<{ publisher: string | null }>}
   * @throws {Problem} with `isGone` if the session has ended
   */
  async describe() {
    return (await request("GET", resolve(this.#links.self), { token: this.token })).json();
  }

  /**
   * Pauses or resumes the session.
   *
   * @param {boolean} active
   */
  async setActive(active) {
    await request("PATCH", resolve(this.#links.self), { token: this.token, json: { active } });
  }

  /**
   * Restarts the session.
   *
   * @param {Record<string, unknown>} context values of the fields; empty to keep the current ones
   * @returns {Promise<number>} the new epoch
   */
  async reset(context) {
    const response = await request("POST", resolve(this.#links.reset), { token: this.token, json: { context } });
    return (await response.json()).epoch;
  }

  /** @returns {Promise<Blob>} a trace of the newest frames, for ui.perfetto.dev */
  async trace() {
    return (await request("GET", resolve(this.#links.trace), { token: this.token })).blob();
  }

  /** Returns the state of the recording. */
  async recording() {
    return this.#requestRecording("GET");
  }

  /** Starts a recording. */
  async startRecording() {
    return this.#requestRecording("POST");
  }

  /** Stops the recording; its files are complete when the promise resolves. */
  async stopRecording() {
    return this.#requestRecording("DELETE");
  }

  /**
   * Returns the URL of a file, for a link.
   *
   * @param {string} href
   * @returns {string}
   */
  fileUrl(href) {
    return this.#urlWithToken(href).href;
  }

  /** Ends the session; also works while the page is being closed. */
  async release() {
    await request("DELETE", resolve(this.#links.self), { token: this.token, keepalive: true });
  }

  /**
   * @param {string} method
   * @returns {Promise<Recording>}
   */
  async #requestRecording(method) {
    const link = this.#links.recording;
    if (!link) throw new Error("This server does not record sessions");
    return (await request(method, resolve(link), { token: this.token })).json();
  }

  /** @param {string} link */
  #socketUrl(link) {
    const url = this.#urlWithToken(link);
    url.protocol = url.protocol.replace("http", "ws");
    return url;
  }

  /** @param {string} link */
  #urlWithToken(link) {
    const url = resolve(link);
    url.searchParams.set("token", this.token);
    return url;
  }
}

/** @param {string} link */
function resolve(link) {
  return new URL(link, rootOf(document.baseURI));
}

/**
 * Returns the root of the server: the folder of the page, or the parent of `demos/NAME/` for a demo's custom page.
 *
 * @param {string} address of the page
 * @returns {URL}
 */
export function rootOf(address) {
  const url = new URL(address);
  url.pathname = url.pathname.replace(/\/demos\/[^/]+\/.*$/, "/");
  return url;
}
