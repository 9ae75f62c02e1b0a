import { messageOf } from "./api.js";
import { ControlChannel } from "./channel.js";
import { applyControls } from "./controls.js";
import { VideoDisplay } from "./display.js";
import { create } from "./dom.js";
import { Emitter } from "./emitter.js";
import { Input } from "./input.js";
import { loadDemo } from "./load_demo.js";
import { ControlSender } from "./sender.js";
import { Server } from "./server.js";
import { Session } from "./session.js";
import { embeddedStore } from "./storage.js";
import { Deferred } from "./timing.js";
import { transportNamed } from "./transports.js";

/** @import { Demo, TicketStatus } from "./api.js" */
/** @import { ControlsUpdate } from "./controls.js" */
/** @import { ServerMessage } from "./protocol.js" */
/** @import { Transport } from "./transports.js" */

/**
 * @typedef {object} ConnectOptions
 * @property {Record<string, unknown>} [context] values of the demo's fields
 * @property {string | null} [token] of a server that requires one
 * @property {string | null} [watch] token of an invitation, to watch another user's session
 * @property {string | null} [join] token of an invitation, to control another user's session together
 * @property {Transport | null} [transport] the only one to use; by default the best one
 * @property {number} [queueTimeout] seconds to wait in line for a place, 0 not to wait; by default as long as it takes
 *
 * @typedef {"loading" | import("./session.js").State | "finished"} EmbeddedState
 *
 * @typedef {object} StateChange
 * @property {EmbeddedState} state
 * @property {string} text why, for the user
 * @property {number | null} [progress] of loading the model, 0 to 1
 *
 * @typedef {object} EmbeddedEvents
 * @property {StateChange} state
 * @property {Demo} demo the description of the demo, once its model is loaded
 * @property {TicketStatus} ticket while the user waits in line
 * @property {import("./session.js").SessionEvents["turn"]} turn when the user's turn ends
 * @property {ServerMessage} message
 */

const STYLE = `
:host { display: block; position: relative; overflow: hidden; aspect-ratio: var(--aspect, 16 / 9); background: #000; }
:is(video, canvas, img) { position: absolute; inset: 0; width: 100%; height: 100%; object-fit: contain; }
[hidden] { display: none; }
`;

/** @type {Set<string>} Places of the sessions of this page: two sessions on one server do not share what they store. */
const usedScopes = new Set();

/**
 * A session on a server, in a page of any site.
 *
 * @extends {Emitter<EmbeddedEvents>}
 */
export class EmbeddedSession extends Emitter {
  #server;
  #options;
  #scope;
  #invitation;
  #firstSeq = Date.now();
  #elements;
  #input = new Input(this.#firstSeq);
  /** @type {ControlSender | null} */
  #sender = null;
  /** @type {VideoDisplay | null} */
  #display = null;
  /** @type {Session | null} */
  #session = null;
  /** @type {Demo | null} */
  #demo = null;
  #run = new AbortController();
  #isClosed = false;
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  #queueTimer;
  /** @type {Deferred<null>} */
  #ready = new Deferred();

  /** @type {StateChange} */
  state = { state: "loading", text: "Connecting" };

  /**
   * @param {string | URL} url of the demo, as the server prints it or as its page shares it
   * @param {ConnectOptions} options
   * @throws {TypeError} the URL is invalid
   */
  constructor(url, options) {
    super();
    const { server, ...given } = parseAddress(url);
    this.#server = new Server(server, options.token ?? given.token);
    const transport = options.transport ?? given.transport;
    const watch = options.watch ?? given.watch;
    this.#invitation = watch ?? options.join ?? given.join;
    this.#options = { ...options, watch, transport: transportNamed(transport) };
    this.#scope = claimScope(`${server.href}#${this.#invitation ?? ""}`);
    this.#elements = createElements();
    this.#ready.promise.catch(() => {}); // the state says it too
  }

  /** Element that shows the video. */
  get element() {
    return this.#elements.frame;
  }

  /** The element inside that shows it now, by the transport in use. */
  get media() {
    const { video, canvas, image } = this.#elements;
    return [video, canvas, image].find((element) => !element.hidden) ?? video;
  }

  /** Resolves with the first picture; rejects if the session ends before. */
  get ready() {
    return this.#ready.promise;
  }

  /** The description of the demo, null before it is loaded. */
  get demo() {
    return this.#demo;
  }

  /** The input devices, for the listeners of an element. */
  get input() {
    return this.#input;
  }

  /** Whether another user's session is shown, and not controlled. */
  get isWatching() {
    return this.#options.watch !== null;
  }

  /** Width of the video over its height, null while it is unknown. */
  get aspect() {
    return this.#display?.aspect ?? null;
  }

  /** Starts, or starts again after the end. */
  start() {
    if (this.#isClosed) throw new Error("The session is closed");
    this.#stop();
    this.#run = new AbortController();
    const { signal } = this.#run;
    addEventListener("pagehide", () => this.#session?.leave(), { signal });
    addEventListener("pageshow", ({ persisted }) => persisted && this.#return(), { signal });
    this.#load(signal).catch((error) => {
      if (!signal.aborted) this.#setState({ state: "ended", text: messageOf(error) });
    });
  }

  /**
   * Changes the controls. What is held stays held until a later call releases it.
   *
   * @param {ControlsUpdate} update
   * @throws {Error} another user's session is watched
   */
  sendControls(update) {
    if (this.isWatching) throw new Error("A session that is watched cannot be controlled");
    applyControls(this.#input, update);
  }

  /** Releases everything that is held, as when the focus is lost. */
  releaseControls() {
    this.#sender?.blur();
  }

  /**
   * Restarts the session; resolves when no older frame follows.
   *
   * @param {Record<string, unknown>} [context] fields to change
   */
  async reset(context = {}) {
    await this.#session?.reset(context);
    this.#input.clearChangedFields();
    if (this.#session?.grant) this.#setState({ state: "live", text: "" });
  }

  /**
   * Pauses or resumes the session.
   *
   * @param {boolean} active
   */
  async setActive(active) {
    await this.#session?.setActive(active);
  }

  /** Leaves the waiting line. */
  leaveLine() {
    this.#session?.leaveLine();
  }

  /** Ends the session, for good. */
  close() {
    if (this.#isClosed) return;
    this.#isClosed = true;
    this.#stop();
    usedScopes.delete(this.#scope);
    this.#setState({ state: "ended", text: "Closed" });
  }

  /** Connects again: a page from the back/forward cache has lost its connections. */
  #return() {
    if (this.#session) this.#session.start();
    else this.start();
  }

  #stop() {
    clearTimeout(this.#queueTimer);
    this.#run.abort();
    this.#sender?.stop();
    this.#session?.close();
    this.#session = null;
  }

  /** @param {AbortSignal} signal */
  async #load(signal) {
    const demo = await loadDemo({
      server: this.#server,
      invitation: this.#invitation,
      onDemo: ({ progress }) => this.#showLoading(progress?.message ?? "", progress?.fraction ?? null),
      onRetry: (message) => this.#showLoading(`${message}. Retrying`, null),
      signal,
    });
    if (demo.state === "failed") throw new Error(demo.error ?? "The model could not be loaded");
    this.#demo = demo;
    const session = this.#connect(demo);
    this.emit("demo", demo);
    session.start();
  }

  /**
   * @param {string} text
   * @param {number | null} progress
   */
  #showLoading(text, progress) {
    this.#setState({ state: "loading", text, progress });
  }

  /** @param {Demo} demo */
  #connect(demo) {
    const { transport, context = {} } = this.#options;
    const channel = new ControlChannel();
    const sender = new ControlSender(this.#input, channel, this.#firstSeq);
    sender.isReadOnly = this.isWatching;
    const display = new VideoDisplay(demo.video, this.#elements);
    const session = new Session(
      demo,
      channel,
      (kind) => display.createViewer(kind, () => {}),
      () => ({ ...context, ...this.#input.changedFields }),
      transport,
      this.#invitation,
      { server: this.#server, store: embeddedStore(this.#scope), reload: () => this.start() },
    );
    this.#input.onChange = (urgent) => sender.onInputChange(urgent);
    sender.start();
    this.#sender = sender;
    this.#display = display;
    this.#session = session;
    channel.on("message", (message) => this.emit("message", message));
    this.#follow(session);
    return session;
  }

  /** @param {Session} session */
  #follow(session) {
    session.on("state", ({ state, text, seconds }) => {
      const isFinished = state === "live" && session.isFinished;
      const retry = seconds > 0 ? `${text} Retrying in ${seconds} s.` : text;
      this.#setState({ state: isFinished ? "finished" : state, text: retry });
    });
    session.on("created", () => this.#input.clearChangedFields());
    session.on("line", (status) => this.#onLine(session, status));
    session.on("turn", (seconds) => this.emit("turn", seconds));
    session.on("turnOver", () => this.#setState({ state: "ended", text: "Your turn has ended." }));
    session.on("invalid", (problem) => this.#setState({ state: "ended", text: problem.message }));
    session.on("event", ({ event }) => {
      if (event === "finished") this.#setState({ state: "finished", text: "The rollout has ended." });
      if (event === "reset_done" && session.grant) this.#setState({ state: "live", text: "" });
    });
  }

  /**
   * @param {Session} session
   * @param {TicketStatus} status
   */
  #onLine(session, status) {
    this.#setState({ state: "waiting", text: `Number ${status.position} in line` });
    this.emit("ticket", status);
    const { queueTimeout } = this.#options;
    if (queueTimeout === undefined || this.#queueTimer !== undefined) return;
    this.#queueTimer = setTimeout(() => session.leaveLine(), queueTimeout * 1000);
  }

  /** @param {StateChange} change */
  #setState(change) {
    if (change.state !== "waiting") {
      clearTimeout(this.#queueTimer);
      this.#queueTimer = undefined;
    }
    this.state = change;
    if (change.state === "live" || change.state === "finished") this.#ready.resolve(null);
    if (change.state === "ended") this.#ready.reject(new Error(change.text));
    this.emit("state", change);
  }
}

/**
 * Starts a session of a demo.
 *
 * @param {string | URL} url of the demo; `?watch=`, `?join=`, `?token=` and `?transport=` in it count as options
 * @param {ConnectOptions} [options]
 * @returns {EmbeddedSession}
 * @throws {TypeError} the URL is invalid
 */
export function connect(url, options = {}) {
  const session = new EmbeddedSession(url, options);
  session.start();
  return session;
}

/**
 * @param {string | URL} url
 * @returns {{ server: URL, token: string | null, watch: string | null, join: string | null, transport: string | null }}
 */
function parseAddress(url) {
  const server = new URL(url, document.baseURI);
  const { searchParams: query } = server;
  const [token, watch, join, transport] = ["token", "watch", "join", "transport"].map((name) => query.get(name));
  server.search = "";
  server.hash = "";
  if (!server.pathname.endsWith("/")) server.pathname += "/";
  return { server, token, watch, join, transport };
}

/** @param {string} address of the session, without its number in this page */
function claimScope(address) {
  for (let number = 1; ; number += 1) {
    const scope = `${address}#${number}`;
    if (usedScopes.has(scope)) continue;
    usedScopes.add(scope);
    return scope;
  }
}

function createElements() {
  const frame = create("div");
  const video = create("video", { muted: true, autoplay: true, playsInline: true, hidden: true });
  video.disablePictureInPicture = true;
  const canvas = create("canvas", { hidden: true });
  const image = create("img", { alt: "", draggable: false, hidden: true });
  const style = new CSSStyleSheet(); // a page may forbid other kinds of style
  style.replaceSync(STYLE);
  const root = frame.attachShadow({ mode: "open" });
  root.adoptedStyleSheets = [style];
  root.append(video, canvas, image);
  return { frame, video, canvas, image };
}
