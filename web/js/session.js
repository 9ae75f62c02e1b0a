import { createSession, joinSession, messageOf, Problem, SessionGrant, Unreachable } from "./api.js";
import { refreshDemo } from "./demo_watch.js";
import { Emitter } from "./emitter.js";
import { hostOfPage } from "./host.js";
import { Backoff, sleep, visible } from "./timing.js";
import { TRANSPORT_LABELS, TRANSPORTS, unsupportedReason } from "./transports.js";
import { unavailability } from "./unavailable.js";
import { waitInLine } from "./waiting_line.js";

/** Milliseconds that the video waits for the control connection before the session counts as live. */
const MAX_CONTROL_DELAY_MS = 3000;

/** @import { Demo, Ticket, TicketStatus } from "./api.js" */
/** @import { Viewer } from "./display.js" */
/** @import { ServerMessage, SessionEvent } from "./protocol.js" */
/** @import { Transport } from "./transports.js" */

/**
 * @typedef {"connecting" | "waiting" | "live" | "reconnecting" | "ended"} State `waiting`: all sessions are in use
 *
 * @typedef {object} StateChange
 * @property {State} state
 * @property {string} text title
 * @property {string} detail further sentences, may be empty
 * @property {string} status label instead of that of the state, may be empty
 * @property {number} seconds until the next attempt, while waiting
 *
 * @typedef {object} SessionEvents
 * @property {StateChange} state
 * @property {null} turnOver the session has ended, because others wait
 * @property {TicketStatus} line while the user waits in line
 * @property {{ seconds: number | null, isIdle: boolean }} turn seconds until the user's turn ends, null if it has no
 *   end; whether it ends for want of input
 * @property {string | null} fallback why another transport than the preferred one is used, null if it is not
 * @property {SessionGrant} created
 * @property {import("./api.js").SessionDescription} restored the page has returned to its session
 * @property {import("./api.js").Role} role what this client may do, after each change
 * @property {Problem} invalid names the fields to correct (422); the session has ended
 * @property {SessionEvent} event of the server
 */

/**
 * The user's session: creates it on the server, shows its video, falls back to the next transport, and reconnects.
 *
 * @extends {Emitter<SessionEvents>}
 */
export class Session extends Emitter {
  #demo;
  #channel;
  #createViewer;
  #context;
  #forced;
  #invitation;
  #host;
  /** @type {Transport | null} */
  #transport = null;
  /** @type {string[]} */
  #fallbackReasons = [];
  /** @type {SessionGrant | null} */
  #grant = null;
  /** @type {Viewer | null} */
  #viewer = null;
  /** @type {AbortController | null} */
  #run = null;
  #backoff = new Backoff();
  #epoch = 0;
  /** The epoch whose rollout has ended. */
  #finishedEpoch = -1;
  /** Whether the current session has shown video. */
  #hasBeenLive = false;
  /** @type {Ticket | null} */
  #ticket = null;

  /** Whether the session is not paused. */
  active = true;
  /** @type {import("./api.js").Role} What this client may do. */
  role = "owner";

  /**
   * @param {Demo} demo
   * @param {import("./channel.js").ControlChannel} channel
   * @param {(transport: Transport) => Viewer} createViewer
   * @param {() => Record<string, unknown>} context values of the fields for a new session
   * @param {Transport | null} forced the only transport to use, if any
   * @param {string | null} invitation token of the invitation by which the user joins another user's session
   * @param {import("./host.js").Host} host
   */
  constructor(demo, channel, createViewer, context, forced, invitation = null, host = hostOfPage(invitation)) {
    super();
    this.#demo = demo;
    this.#channel = channel;
    this.#createViewer = createViewer;
    this.#context = context;
    this.#forced = forced;
    this.#invitation = invitation;
    this.#host = host;
    channel.on("message", (message) => this.#onMessage(message));
  }

  /** The transport in use. */
  get transport() {
    return this.#transport;
  }

  /** The viewer that shows the video, or null. */
  get viewer() {
    return this.#viewer;
  }

  /** The session on the server, or null. */
  get grant() {
    return this.#grant;
  }

  /** Whether the rollout has ended: there are no more frames until a reset. */
  get isFinished() {
    return this.#finishedEpoch >= this.#epoch;
  }

  get #store() {
    return this.#host.store;
  }

  /** Whether the user joins the session of another user. */
  get #isGuest() {
    return this.#invitation !== null;
  }

  /** Whether the session produces frames. */
  get isRunning() {
    return this.active && !this.isFinished;
  }

  /** Starts, or starts again after the end. */
  start() {
    this.#run?.abort();
    this.#run = new AbortController();
    const { signal } = this.#run;
    this.#backoff.reset();
    this.#chooseTransport();
    this.#keepConnected(signal).catch((error) => {
      if (!signal.aborted) this.#fail(error);
    });
  }

  /** The page is being closed or reloaded. The session and a ticket stay valid for a while, so that it may return. */
  leave() {
    this.#run?.abort();
    this.#grant?.leave().catch(() => {}); // what follows from it happens a little later
  }

  /** Leaves the waiting line. */
  leaveLine() {
    if (!this.#ticket) return;
    this.#dropTicket();
    this.#run?.abort();
    this.#setState("ended", "You have left the line.");
  }

  /** Ends the session, or leaves the waiting line. */
  close() {
    this.#dropTicket();
    this.#run?.abort();
    this.#release();
  }

  #dropTicket() {
    this.#ticket?.leave().catch(() => {}); // the ticket of an absent client expires
    this.#store.ticket.value = null;
  }

  /** Tries WebRTC again after a fallback. */
  retryWebrtc() {
    this.#fallbackReasons = [];
    this.#use("webrtc");
    this.#viewer?.stop();
  }

  /**
   * Pauses or resumes the session.
   *
   * @param {boolean} active
   */
  async setActive(active) {
    await this.#grant?.setActive(active);
    this.active = active;
  }

  /**
   * Restarts the session.
   *
   * @param {Record<string, unknown>} context values of the fields; empty to keep the current ones
   */
  async reset(context) {
    const epoch = await this.#grant?.reset(context);
    if (epoch !== undefined) this.#epoch = Math.max(this.#epoch, epoch);
  }

  #chooseTransport() {
    const reason = this.#forced && unsupportedReason(this.#forced);
    this.#fallbackReasons = reason ? [reason] : [];
    this.#transport = this.#forced;
    if (this.#forced && !reason) this.#use(this.#forced);
    else this.#useNext();
  }

  /** The offered transports that come after the current one, in order of preference. */
  get #remaining() {
    const following = this.#transport ? TRANSPORTS.slice(TRANSPORTS.indexOf(this.#transport) + 1) : TRANSPORTS;
    return following.filter((transport) => this.#demo.transports.includes(transport));
  }

  /** Uses the next transport that this browser supports. */
  #useNext() {
    for (const transport of this.#remaining) {
      const reason = unsupportedReason(transport);
      if (!reason) {
        this.#use(transport);
        return;
      }
      this.#fallbackReasons.push(reason);
    }
    this.#use("mjpeg");
  }

  /** @param {Transport} transport */
  #use(transport) {
    this.#transport = transport;
    const reasons = this.#fallbackReasons.join(". ");
    this.emit("fallback", reasons ? `${reasons}. Using ${TRANSPORT_LABELS[transport]} instead.` : null);
  }

  /** @param {AbortSignal} signal */
  async #keepConnected(signal) {
    while (!signal.aborted) {
      try {
        const grant = await this.#ensureGrant(signal);
        const reason = await this.#watch(grant, signal);
        signal.throwIfAborted();
        this.#setState("reconnecting", reason ? `Reconnecting: ${reason}` : "Reconnecting");
      } catch (error) {
        if (signal.aborted) throw error;
        if (this.#canFallBack(error)) {
          this.#fallbackReasons.push(fallbackReason(error, this.#transport));
          this.#useNext();
          continue;
        }
        this.#recover(error);
      }
      await sleep(this.#backoff.next(), signal);
    }
  }

  /**
   * Handles an error that another attempt may resolve; throws every other one.
   *
   * @param {unknown} error
   */
  #recover(error) {
    if (error instanceof Problem && error.isGone && this.#grant) {
      // A session that is lost at once would be lost again, and so would the places of others.
      if (error.kind === "turn-over" || this.#isGuest || !this.#hasBeenLive) throw error;
      this.#drop();
      this.#demo.received = Number.NEGATIVE_INFINITY; // a server that has been restarted may serve another demo
      this.#setState("reconnecting", "The session has ended. Starting a new one");
      return;
    }
    if (error instanceof Problem && error.status < 500) throw error;
    const reason = unavailability(error);
    if (reason) this.#setState("reconnecting", reason.title, reason);
    else this.#setState("reconnecting", `${messageOf(error).replace(/\.$/, "")}. Retrying`);
  }

  /**
   * Returns the session, or creates one.
   *
   * @param {AbortSignal} signal
   * @returns {Promise<SessionGrant>}
   */
  async #ensureGrant(signal) {
    if (this.#grant) {
      await this.#grant.describe();
      return this.#grant;
    }
    const restored = await this.#restoreGrant();
    if (restored) return restored;
    await visible();
    const grant = await this.#createGrant(signal);
    this.#adopt(grant, { active: true, epoch: 0, isFinished: false, role: grant.body.role ?? "owner" });
    this.#hasBeenLive = false;
    this.#store.grant.value = grant.body;
    this.emit("created", grant);
    return grant;
  }

  /**
   * Returns to the session that this tab had before a reload, if it still exists.
   *
   * @returns {Promise<SessionGrant | null>}
   */
  async #restoreGrant() {
    const body = this.#store.grant.value;
    if (!body) return null;
    const grant = new SessionGrant(body, this.#host.server);
    try {
      const described = await grant.describe();
      const { active, epoch, state, role } = described;
      this.#adopt(grant, { active, epoch, isFinished: state === "finished", role });
      this.#hasBeenLive = true;
      this.emit("restored", described);
      return grant;
    } catch (error) {
      if (!(error instanceof Problem) || !error.isGone) throw error;
      this.#store.grant.value = null;
      return null;
    }
  }

  /**
   * @param {SessionGrant} grant
   * @param {{ active: boolean, epoch: number, isFinished: boolean, role: import("./api.js").Role }} state
   */
  #adopt(grant, { active, epoch, isFinished, role }) {
    this.#grant = grant;
    this.active = active;
    this.#epoch = epoch;
    this.#finishedEpoch = isFinished ? epoch : -1;
    this.#channel.open(grant.controls);
    this.#setRole(role);
  }

  /** @param {import("./api.js").Role} role */
  #setRole(role) {
    this.role = role;
    this.emit("role", role);
  }

  /**
   * Creates a session, as soon as there is a place.
   *
   * @param {AbortSignal} signal
   * @returns {Promise<SessionGrant>}
   */
  async #createGrant(signal) {
    for (;;) {
      this.#setState("connecting", "Starting a session");
      if (this.#invitation !== null) return joinSession(this.#invitation, signal, this.#host.server);
      try {
        const answer = await createSession(this.#context(), this.#store.ticket.value, signal, this.#host.server);
        if (answer instanceof SessionGrant) {
          this.#store.ticket.value = null;
          return answer;
        }
        await this.#waitInLine(answer, signal);
      } catch (error) {
        if (!(error instanceof Problem) || error.status !== 503) throw error;
        await this.#wait(error, signal);
      }
    }
  }

  /**
   * @param {Ticket} ticket
   * @param {AbortSignal} signal
   */
  async #waitInLine(ticket, signal) {
    this.#ticket = ticket;
    this.#store.ticket.value = ticket.id;
    try {
      const isReserved = await waitInLine(ticket, (status) => this.emit("line", status), signal);
      if (!isReserved) this.#store.ticket.value = null;
      else if (document.hidden) this.emit("line", ticket.status);
      await visible();
    } finally {
      this.#ticket = null;
    }
  }

  /**
   * @param {Problem} problem
   * @param {AbortSignal} signal
   */
  async #wait(problem, signal) {
    const { title, detail, status } = unavailability(problem) ?? { title: problem.message, detail: "", status: "" };
    for (let seconds = Math.max(1, problem.retryAfter); seconds > 0; seconds -= 1) {
      this.emit("state", { state: "waiting", text: title, detail, status, seconds });
      await sleep(1000, signal);
    }
  }

  /**
   * Shows the video until the connection ends.
   *
   * @param {SessionGrant} grant
   * @param {AbortSignal} signal
   * @returns {Promise<string>} why it ended
   */
  async #watch(grant, signal) {
    await refreshDemo(this.#demo, this.#invitation, this.#host.server, this.#host.reload);
    signal.throwIfAborted();
    if (!this.#transport) throw new Error("No transport was chosen");
    this.#setState("connecting", "Connecting");
    const viewer = this.#createViewer(this.#transport);
    this.#viewer = viewer;
    const { ice_servers: iceServers, ice_transport_policy: iceTransportPolicy } = this.#demo;
    const stop = () => viewer.stop();
    signal.addEventListener("abort", stop, { once: true });
    try {
      const options = { iceServers, iceTransportPolicy, channel: this.#channel, expectFrame: this.isRunning };
      if (await viewer.start(grant, options)) {
        // A key that is pressed before there is a control connection would be lost.
        await Promise.race([this.#channel.opened, sleep(MAX_CONTROL_DELAY_MS, signal)]);
        this.#backoff.reset();
        this.#hasBeenLive = true;
        this.#setState("live", "Live");
      }
      return await viewer.ended;
    } finally {
      signal.removeEventListener("abort", stop);
      this.#viewer = null;
      await viewer.stop();
    }
  }

  /** @param {unknown} error */
  #canFallBack(error) {
    if (this.#forced || !this.#grant) return false;
    if (error instanceof Unreachable || (error instanceof Problem && error.isGone)) return false;
    return this.#remaining.some((transport) => !unsupportedReason(transport));
  }

  /** @param {ServerMessage} message */
  #onMessage(message) {
    if (message.type === "role") this.#setRole(message.role);
    if (message.type === "turn") this.emit("turn", { seconds: message.ends_in_s, isIdle: message.reason === "idle" });
    if (message.type !== "event") return;
    this.#epoch = Math.max(this.#epoch, message.epoch);
    if (message.event === "active_changed") this.active = Boolean(message.active);
    if (message.event === "finished") this.#finishedEpoch = Math.max(this.#finishedEpoch, message.epoch);
    if (message.event === "detached") this.#viewer?.stop();
    if (message.event === "failed" && message.fatal) {
      this.#run?.abort();
      this.#fail(new Error(message.error ?? "The model failed"));
    }
    this.emit("event", message);
  }

  /** Forgets the session on the server. */
  #drop() {
    const grant = this.#grant;
    this.#grant = null;
    this.#store.grant.value = null;
    this.#channel.close();
    return grant;
  }

  /** Ends the session on the server. A failure is ignored, because the server ends an idle session itself. */
  #release() {
    const grant = this.#drop();
    if (this.role === "owner" && !this.#isGuest) grant?.release().catch(() => {});
  }

  /** @param {unknown} error */
  #fail(error) {
    this.#release();
    this.emit("turn", { seconds: null, isIdle: false });
    if (error instanceof Problem && error.status === 422) this.emit("invalid", error);
    else if (error instanceof Problem && error.kind === "turn-over") this.emit("turnOver", null);
    else if (this.#isGuest && error instanceof Problem && error.kind === "token") {
      this.#setState("ended", "The owner has stopped sharing the session.");
    } else this.#setState("ended", messageOf(error));
  }

  /**
   * @param {State} state
   * @param {string} text
   * @param {{ detail?: string, status?: string }} [more]
   */
  #setState(state, text, { detail = "", status = "" } = {}) {
    this.emit("state", { state, text, detail, status, seconds: 0 });
  }
}

/**
 * @param {unknown} error
 * @param {Transport | null} transport
 */
function fallbackReason(error, transport) {
  const message = messageOf(error).replace(/\.$/, "");
  if (!(error instanceof Problem) || !transport) return message;
  return `${TRANSPORT_LABELS[transport]} could not connect (${message})`;
}
