/** Client of the server's HTTP API (docs/http.md). */

import { Server } from "./server.js";

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
 * @typedef {object} VideoSize
 * @property {number | null} width pixels, null where the demo declares none
 * @property {number | null} height
 * @property {number} pixel_aspect width of a pixel over its height
 * @property {"smooth" | "sharp"} scaling
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
 * @property {string | null} [gallery] path of the gallery that has the demo
 * @property {import("./page_style.js").PageStyle} style
 *
 * @typedef {"self" | "leave" | "invitations" | "qr" | "takeover" | "reset" | "whep" | "mjpeg" | "video" | "controls"
 *   | "trace"} LinkName
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

const TYPE_PREFIX = "urn:realtime-engine:problem:";

/** Kinds of problems about a session or ticket that does not exist any more. */
const GONE = ["no-session", "session-over", "turn-over", "token", "no-ticket", "ticket-over"];

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
    this.kind = (body.type ?? "").replace(TYPE_PREFIX, "");
    this.errors = Array.isArray(body.errors) ? body.errors : [];
    this.retryAfter = retryAfter;
  }

  /** Whether the requested session or ticket no longer exists. An error of a proxy in between says nothing of it. */
  get isGone() {
    return GONE.includes(this.kind);
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
 * @param {string | null} invitation token of an invitation, which gives access to it
 * @param {Server} server
 * @returns {Promise<Demo>}
 */
export async function getDemo(invitation = null, server = Server.ofPage()) {
  const token = invitation ?? server.token ?? undefined;
  const demo = await (await request("GET", server.resolve("api/demo"), { token })).json();
  return { ...demo, page: demo.page && server.resolve(demo.page).href, received: performance.now() };
}

/**
 * Joins a session.
 *
 * @param {string} invitation token of the invitation
 * @param {AbortSignal} signal
 * @param {Server} server
 * @returns {Promise<SessionGrant>}
 * @throws {Problem} the invitation was revoked (404), or it is over (410)
 */
export async function joinSession(invitation, signal, server = Server.ofPage()) {
  const response = await request("POST", server.resolve("api/invitations"), { json: { token: invitation }, signal });
  return new SessionGrant(await response.json(), server);
}

/**
 * @typedef {object} LobbySession
 * @property {string} session_id
 * @property {number} age_s
 * @property {number} viewers
 * @property {{ thumbnail: string, invitations: string }} links
 *
 * @typedef {{ capacity: number, occupied: number, waiting: number, sessions: LobbySession[] }} LobbyState
 */

/** @returns {Promise<LobbyState>} what runs on the server */
export async function getLobby() {
  return (await request("GET", Server.ofPage().resolve("api/lobby"))).json();
}

/**
 * Returns the address of the page that watches a session of the lobby.
 *
 * @param {LobbySession} session
 * @returns {Promise<URL>}
 */
export async function watchAddress({ links }) {
  const { link } = await (await request("POST", Server.ofPage().resolve(links.invitations))).json();
  return Server.ofPage().resolve(link);
}

/**
 * Returns the address of a session's newest thumbnail.
 *
 * @param {LobbySession} session
 * @returns {string}
 */
export function thumbnailAddress({ links }) {
  const url = Server.ofPage().resolve(links.thumbnail);
  url.searchParams.set("at", String(Date.now()));
  return url.href;
}

/**
 * @typedef {object} Invitation
 * @property {string} id
 * @property {string} link relative to the page
 */

/**
 * Creates a session, or joins the waiting line if there is no place.
 *
 * @param {Record<string, unknown>} context values of the fields
 * @param {string | null} ticket id of the ticket for which a place is reserved
 * @param {AbortSignal} signal
 * @param {Server} server
 * @returns {Promise<SessionGrant | Ticket>}
 * @throws {Problem} 503 if the waiting line is full, 422 if a field is rejected
 */
export async function createSession(context, ticket, signal, server = Server.ofPage()) {
  const json = ticket === null ? { context } : { context, ticket };
  const token = server.token ?? undefined;
  const response = await request("POST", server.resolve("api/sessions"), { token, json, signal });
  const answer = await response.json();
  return response.status === 202 ? new Ticket(answer, server) : new SessionGrant(answer, server);
}

/**
 * @typedef {object} TicketStatus
 * @property {"waiting" | "reserved" | "claimed" | "left" | "expired" | "absent"} state
 * @property {number} position in the line, from 1 on
 * @property {number} estimated_wait_s
 * @property {number} [claim_within_s] of a reserved place
 */

/** A place in the waiting line. */
export class Ticket {
  #links;
  #server;

  /**
   * @param {TicketStatus & { ticket: string, links: { self: string, events: string } }} answer
   * @param {Server} server
   */
  constructor({ ticket, links, ...status }, server = Server.ofPage()) {
    this.id = ticket;
    this.status = status;
    this.#links = links;
    this.#server = server;
  }

  /** URL of the event stream. */
  get events() {
    return this.#server.resolve(this.#links.events);
  }

  /** Updates the status. */
  async refresh() {
    this.status = await (await request("GET", this.#server.resolve(this.#links.self))).json();
  }

  /** Leaves the line; also works while the page is being closed. */
  async leave() {
    await request("DELETE", this.#server.resolve(this.#links.self), { keepalive: true });
  }
}

/**
 * @typedef {object} SessionDescription
 * @property {number} epoch
 * @property {string} state such as "finished"
 * @property {boolean} active
 * @property {Record<string, unknown>} fields values of the fields, without images and long texts
 * @property {string | null} publisher the connection that sends it video
 * @property {Role} role what this client may do
 */

/** @typedef {"viewer" | "controller" | "owner"} Role */

/**
 * @typedef {object} GrantBody answer to `POST /api/sessions` and `POST /api/invitations`
 * @property {string} session_id
 * @property {string} token
 * @property {SessionLinks} links
 * @property {Role} [role] of a client that has joined
 */

/** A session on the server, with the token that gives access to it. */
export class SessionGrant {
  #links;
  #server;

  /**
   * @param {GrantBody} body
   * @param {Server} server
   */
  constructor(body, server = Server.ofPage()) {
    this.body = body;
    this.id = body.session_id;
    this.token = body.token;
    this.#links = body.links;
    this.#server = server;
  }

  /** URL that takes a WHEP offer. */
  get whep() {
    return this.#server.resolve(this.#links.whep);
  }

  /** URL of the video WebSocket. */
  get video() {
    return this.#socketUrl(this.#links.video);
  }

  /** URL that takes a WHIP offer, or null if the demo takes no video. */
  get whip() {
    return this.#links.whip ? this.#server.resolve(this.#links.whip) : null;
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
   * Returns the state of the session.
   *
   * @returns {Promise<SessionDescription>}
   * @throws {Problem} with `isGone` if the session has ended
   */
  async describe() {
    return (await request("GET", this.#server.resolve(this.#links.self), { token: this.token })).json();
  }

  /**
   * Pauses or resumes the session.
   *
   * @param {boolean} active
   */
  async setActive(active) {
    await request("PATCH", this.#server.resolve(this.#links.self), { token: this.token, json: { active } });
  }

  /**
   * Restarts the session.
   *
   * @param {Record<string, unknown>} context values of the fields; empty to keep the current ones
   * @returns {Promise<number>} the new epoch
   */
  async reset(context) {
    const response = await request("POST", this.#server.resolve(this.#links.reset), {
      token: this.token,
      json: { context },
    });
    return (await response.json()).epoch;
  }

  /**
   * Makes an invitation to the session.
   *
   * @param {Role} role
   * @returns {Promise<Invitation>}
   */
  async invite(role) {
    return (await request("POST", this.#invitations, { token: this.token, json: { role } })).json();
  }

  /**
   * Revokes an invitation; those who have joined by it are disconnected.
   *
   * @param {string} id
   */
  async revoke(id) {
    const url = new URL(`${this.#invitations.pathname}/${id}`, this.#invitations);
    await request("DELETE", url, { token: this.token });
  }

  /** @returns {Promise<boolean>} whether the client owns the session now; else the owner is asked */
  async takeOver() {
    return (await request("POST", this.#server.resolve(this.#links.takeover), { token: this.token })).status === 200;
  }

  /**
   * Answers a client that asks to take over.
   *
   * @param {string} member
   * @param {boolean} accept
   */
  async answerTakeOver(member, accept) {
    const url = this.#server.resolve(`${this.#links.takeover}/${member}`);
    await request("POST", url, { token: this.token, json: { accept } });
  }

  /**
   * @param {string} text
   * @returns {Promise<Blob>} the text as a QR code, in SVG
   */
  async qr(text) {
    return (await request("POST", this.#server.resolve(this.#links.qr), { token: this.token, json: { text } })).blob();
  }

  /** @returns {Promise<{ members: { connected: boolean, role: Role }[] }>} the other clients of the session */
  async members() {
    return (await request("GET", this.#invitations, { token: this.token })).json();
  }

  /** @returns {Promise<Blob>} a trace of the newest frames, for ui.perfetto.dev */
  async trace() {
    return (await request("GET", this.#server.resolve(this.#links.trace), { token: this.token })).blob();
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

  /** Reports that the page is being closed or reloaded: the session ends unless it comes back within seconds. */
  async leave() {
    await request("POST", this.#server.resolve(this.#links.leave), { token: this.token, keepalive: true });
  }

  /** Ends the session; also works while the page is being closed. */
  async release() {
    await request("DELETE", this.#server.resolve(this.#links.self), { token: this.token, keepalive: true });
  }

  /**
   * @param {string} method
   * @returns {Promise<Recording>}
   */
  async #requestRecording(method) {
    const link = this.#links.recording;
    if (!link) throw new Error("This server does not record sessions");
    return (await request(method, this.#server.resolve(link), { token: this.token })).json();
  }

  get #invitations() {
    return this.#server.resolve(this.#links.invitations);
  }

  /** @param {string} link */
  #socketUrl(link) {
    const url = this.#urlWithToken(link);
    url.protocol = url.protocol.replace("http", "ws");
    return url;
  }

  /** @param {string} link */
  #urlWithToken(link) {
    const url = this.#server.resolve(link);
    url.searchParams.set("token", this.token);
    return url;
  }
}
