import { messageOf, Problem } from "./api.js";
import { Camera } from "./camera.js";
import { ControlChannel } from "./channel.js";
import { ServerClock } from "./clock.js";
import { VideoDisplay } from "./display.js";
import { byId, create } from "./dom.js";
import { SchemaForm } from "./form.js";
import { FrameReporter } from "./frame_reporter.js";
import { FrameMatcher } from "./frames.js";
import { GamepadPoller } from "./gamepad.js";
import { Input } from "./input.js";
import { Keyboard } from "./keyboard.js";
import { KeyToPixel } from "./latency.js";
import { Legend } from "./legend.js";
import { Lobby } from "./lobby.js";
import { ModelFailure } from "./model_failure.js";
import { Hud } from "./page_style.js";
import { Pointer } from "./pointer.js";
import { Recorder } from "./recorder.js";
import { ControlSender } from "./sender.js";
import { Session } from "./session.js";
import { ShareDialog } from "./share.js";
import { Stats } from "./stats.js";
import { Stick } from "./stick.js";
import { TakeOver } from "./takeover.js";
import { Toasts } from "./toasts.js";
import { unsupportedReason } from "./transports.js";
import { TurnCountdown } from "./turn_countdown.js";
import { UndoableReset } from "./undo.js";
import { describeWait } from "./waiting_line.js";

/** @import { FrameIdentity, Presentation } from "./frames.js" */
/** @import { PresentedFrame, SessionEvent, ServerMessage } from "./protocol.js" */

const STATS_INTERVAL_MS = 500;
const MAX_SEED = 2 ** 31 - 1;

/** @typedef {import("./session.js").State | "paused" | "finished"} Status */

/** @type {Record<Status, string>} */
const STATUS_LABELS = {
  connecting: "Connecting",
  waiting: "Waiting",
  live: "Live",
  paused: "Paused",
  finished: "Finished",
  reconnecting: "Reconnecting",
  ended: "Ended",
};

/** The page of a demo whose model is ready: connects the controls, the video and the statistics with one session. */
export class DemoPage {
  #demo;
  #overlay;
  #isGuest;
  #hasDevices = false;
  /** Numbers of messages and edges grow beyond those that the page sent before a reload. */
  #firstSeq = Date.now();
  #input = new Input(this.#firstSeq);
  #channel = new ControlChannel();
  #sender;
  #latency = new KeyToPixel();
  #clock = new ServerClock();
  #frames = new FrameMatcher((identity, presentation) => this.#onIdentified(identity, presentation));
  #reporter = new FrameReporter(this.#clock, (body) => this.#sender.sendPresented(body));
  #toasts = new Toasts(byId("toasts"));
  #lobby = new Lobby((error) => this.#toasts.show(messageOf(error)));
  #turn = new TurnCountdown(byId("turn"));
  #form;
  #display;
  #hud;
  #pointer;
  #legend;
  #session;
  #share;
  #takeOver;
  #undo = new UndoableReset();
  #stats;
  /** @type {import("./session.js").State} */
  #state = "connecting";
  #failure;
  /** What the status says instead of the state, if anything. */
  #statusLabel = "";
  /** Whether the user is asked for fields before a session can start. */
  #isAsking = false;

  /**
   * @param {import("./api.js").Demo} demo
   * @param {import("./overlay.js").Overlay} overlay
   * @param {import("./transports.js").Transport | null} forced the only transport to use, if any
   * @param {string | null} invitation token of the invitation by which the user joins another user's session
   */
  constructor(demo, overlay, forced, invitation) {
    this.#demo = demo;
    this.#isGuest = invitation !== null;
    this.#sender = new ControlSender(this.#input, this.#channel, this.#firstSeq);
    this.#overlay = overlay;
    this.#failure = new ModelFailure(overlay);
    this.#form = new SchemaForm(byId("form", HTMLFormElement), demo.controls, demo.required_context);
    this.#hud = new Hud(demo.style.hud);
    this.#display = new VideoDisplay(demo.video, {
      video: byId("video", HTMLVideoElement),
      canvas: byId("canvas", HTMLCanvasElement),
      image: byId("image", HTMLImageElement),
      frame: document.documentElement,
    });
    this.#legend = new Legend(byId("legend"), demo.controls, this.#input);
    this.#pointer = new Pointer(byId("stage"), this.#input, demo.controls, () => this.#display.aspect);
    this.#stats = new Stats(this.#latency, () => this.#display.resolution);
    this.#session = new Session(
      demo,
      this.#channel,
      (transport) => this.#display.createViewer(transport, (frame) => this.#onFrame(frame)),
      () => this.#form.values,
      forced,
      invitation,
    );
    this.#share = new ShareDialog(this.#session, (text) => this.#toasts.show(text));
    this.#takeOver = new TakeOver(this.#session, (text) => this.#toasts.show(text));
  }

  /** Starts a session, or asks for the required fields first. */
  start() {
    this.#layOut();
    this.#connectInput();
    this.#connectSession();
    this.#connectButtons();
    this.#connectWindow();
    setInterval(() => {
      this.#stats.update(this.#session);
      this.#showFailure();
    }, STATS_INTERVAL_MS);
    if (new URLSearchParams(location.search).has("lobby")) this.#showLobby();
    else if (!this.#isGuest && this.#form.missing.length) this.#askForFields();
    else this.#session.start();
  }

  get #title() {
    return this.#demo.title || this.#demo.name;
  }

  /** Shows what runs, and starts a session on request. */
  #showLobby() {
    byId("status").textContent = "Not started";
    byId("status").dataset.state = "waiting";
    this.#lobby.show();
    this.#overlay.show(this.#title, {
      button: "Play",
      onClick: () => {
        this.#lobby.hide();
        if (this.#form.missing.length) this.#askForFields();
        else this.#session.start();
      },
    });
  }

  #layOut() {
    const { controls, page } = this.#demo;
    byId("form").hidden = this.#form.isEmpty;
    byId("legend").hidden = !controls.keys.length;
    byId("key-to-pixel").hidden = !controls.keys.length;
    byId("seed").hidden = this.#form.field("seed")?.kind !== "number";
    byId("fullscreen").hidden = !document.fullscreenEnabled;
    const hasCustomPage = page !== null && new URL(page, location.href).pathname !== location.pathname;
    byId("custom-page").hidden = !hasCustomPage;
    if (hasCustomPage) byId("custom-page-link", HTMLAnchorElement).href = page;
    byId("panel").hidden = this.#form.isEmpty && !hasCustomPage && !Camera.isAvailable(this.#demo);
    byId("sticks").append(...controls.sticks.map((name) => new Stick(name, this.#input).element));
    byId("sticks").hidden = !controls.sticks.length || !matchMedia("(pointer: coarse)").matches;
    document.body.dataset.role = this.#isGuest ? "viewer" : "owner";
  }

  /** @param {import("./api.js").Role} role */
  #onRole(role) {
    const previous = document.body.dataset.role;
    document.body.dataset.role = role;
    this.#sender.isReadOnly = role === "viewer";
    if (role !== "viewer") this.#connectDevices();
    if (role !== "owner") this.#share.close();
    this.#takeOver.update();
    if (previous === role || this.#state !== "live") return;
    this.#toasts.show(role === "owner" ? "You own the session now." : "Another client owns the session now.");
    this.#sender.flush();
    this.#showState();
  }

  #connectInput() {
    this.#input.onChange = (urgent) => {
      this.#sender.onInputChange(urgent);
      this.#legend.update();
    };
    this.#sender.onPress = (seq, time) => {
      if (this.#session.isRunning) this.#latency.addPress(seq, time);
    };
    this.#sender.onPong = (sent, serverNs, received) => {
      this.#stats.setRoundTrip(received - sent);
      this.#clock.addPong(sent, serverNs, received);
    };
    this.#sender.isReadOnly = this.#isGuest;
    this.#sender.start();
    if (!this.#isGuest) this.#connectDevices();
    byId("form").addEventListener("submit", () => {
      if (this.#isAsking) this.#startIfComplete();
    });
    byId("form").addEventListener("click", (event) => this.#returnFocus(event));
    this.#form.onChange = (name, value) => this.#setField(name, value);
  }

  /** Listens to the devices, once the client may control the session. */
  #connectDevices() {
    if (this.#hasDevices) return;
    this.#hasDevices = true;
    new Keyboard(this.#input, this.#demo.controls).listen();
    this.#pointer.listen();
    if (this.#demo.controls.gamepad) new GamepadPoller(this.#input).listen();
  }

  #connectSession() {
    const session = this.#session;
    session.on("state", (change) => this.#onState(change));
    session.on("created", () => {
      this.#undo.onStart();
      this.#clock.clear();
      this.#onContextSent();
    });
    session.on("restored", ({ fields }) => {
      this.#undo.onStart(Number.POSITIVE_INFINITY);
      this.#clock.clear();
      for (const [name, value] of Object.entries(fields)) this.#form.set(name, value);
      this.#onContextSent();
    });
    session.on("line", (status) => this.#showLine(status));
    session.on("turnOver", () => this.#showTurnOver());
    session.on("turn", ({ seconds, isIdle }) => this.#turn.set(seconds, isIdle));
    session.on("fallback", (text) => this.#showNotice(text));
    session.on("invalid", (problem) => this.#askForFields(problem));
    session.on("event", (event) => this.#onEvent(event));
    this.#channel.on("message", (message) => this.#onMessage(message));
    const { video_input: videoInput, recording } = this.#demo;
    session.on("role", (role) => this.#onRole(role));
    this.#share.listen();
    this.#takeOver.listen();
    this.#undo.listen();
    if (videoInput && Camera.isAvailable(this.#demo)) new Camera(this.#demo, videoInput.max_side, session).listen();
    if (!recording) return;
    const recorder = new Recorder(session, (text) => this.#toasts.show(text));
    recorder.listen();
    this.#onClick("record", () => recorder.toggle());
  }

  #connectButtons() {
    this.#onClick("reset", () => this.#reset());
    this.#onClick("seed", () => this.#newSeed());
    this.#onClick("pause", () => this.#togglePause());
    this.#onClick("notice-retry", async () => this.#session.retryWebrtc());
    this.#onClick("fullscreen", () => toggleFullscreen());
    this.#onClick("trace", () => this.#saveTrace());
    this.#onClick("stats-toggle", () => this.#togglePanel());
  }

  #connectWindow() {
    const blur = () => this.#sender.blur();
    addEventListener("blur", blur);
    document.addEventListener("visibilitychange", () => {
      if (document.hidden) blur();
    });
    addEventListener("pagehide", () => this.#session.leave());
    // A page that comes back from the back/forward cache has lost its connections; a new one returns to the session.
    addEventListener("pageshow", (event) => {
      if (event.persisted) location.reload();
    });
  }

  /**
   * Runs an action when a button is clicked.
   *
   * @param {string} id
   * @param {() => Promise<void>} action
   */
  #onClick(id, action) {
    const button = byId(id, HTMLButtonElement);
    button.addEventListener("click", (event) => {
      this.#returnFocus(event);
      this.#run(button, action);
    });
  }

  /**
   * Runs the action of a button, once at a time, and shows its errors.
   *
   * @param {HTMLElement} button
   * @param {() => Promise<void>} action
   */
  async #run(button, action) {
    if (button.getAttribute("aria-busy") === "true") return;
    button.setAttribute("aria-busy", "true");
    try {
      await action();
    } catch (error) {
      if (error instanceof Problem && error.status === 422) this.#showErrors(error);
      else this.#toasts.show(messageOf(error));
    } finally {
      button.removeAttribute("aria-busy");
    }
  }

  /**
   * Moves the focus to the video after a click, so that the keys control it. After use with the keyboard (`detail` is 0)
   * the focus stays.
   *
   * @param {UIEvent} event
   */
  #returnFocus({ detail, target }) {
    if (detail === 0 || !(target instanceof Element)) return;
    if (!target.matches("button, [type=range], [type=radio], [type=checkbox]")) return;
    byId("stage").focus({ preventScroll: true });
  }

  async #reset() {
    if (!(await this.#undo.confirm(this.#hasRollout))) return;
    const changed = Object.keys(this.#input.changedFields).length > 0;
    await this.#session.reset(changed ? this.#form.values : {});
    this.#onContextSent();
  }

  async #newSeed() {
    const { min = 0, max = MAX_SEED } = this.#form.field("seed") ?? {};
    const seed = min + Math.floor(Math.random() * (max - min + 1));
    if (!(await this.#undo.confirm(this.#hasRollout))) return;
    await this.#session.reset({ ...this.#form.values, seed });
    this.#form.set("seed", seed);
    this.#onContextSent();
  }

  /** Whether there is a rollout that a reset ends. */
  get #hasRollout() {
    return this.#state === "live" && !this.#session.isFinished;
  }

  async #togglePause() {
    await this.#session.setActive(!this.#session.active);
    this.#showStatus();
  }

  async #togglePanel() {
    const panel = byId("details");
    panel.hidden = !panel.hidden;
    this.#reporter.wantsTiming = !panel.hidden;
    byId("trace").hidden = panel.hidden;
    byId("stats-toggle").setAttribute("aria-pressed", String(!panel.hidden));
    await this.#stats.update(this.#session);
  }

  async #saveTrace() {
    const { grant } = this.#session;
    if (!grant) return;
    const href = URL.createObjectURL(await grant.trace());
    create("a", { href, download: "trace.json" }).click();
    URL.revokeObjectURL(href);
  }

  /** The session has all fields as its context, from its creation or a reset. */
  #onContextSent() {
    this.#input.clearChangedFields();
    this.#dropPending();
    this.#form.showErrors(new Map());
    this.#showState();
  }

  /**
   * @param {string} name
   * @param {unknown} value
   */
  #setField(name, value) {
    if (this.#input.setField(name, value) || !this.#session.grant) return;
    this.#toasts.show(`${this.#form.field(name)?.title} takes effect at the next reset.`);
  }

  /** @param {ServerMessage} message */
  #onMessage(message) {
    if (message.type === "frame" && typeof message.rtp === "number") this.#frames.addIdentity(message.rtp, message);
    if (message.type === "timing") this.#stats.setTiming(message.stages, message.pipeline);
    if (message.type === "hud") this.#hud.show(message.values);
    if (message.type === "error") this.#showMessageError(message.error);
    if (message.type === "takeover") this.#takeOver.onMessage(message);
  }

  /** @param {import("./protocol.js").MessageError} error */
  #showMessageError({ detail, field: name }) {
    const field = this.#form.field(name ?? null);
    if (field) this.#form.showErrors(new Map([[field.name, detail]]));
    this.#toasts.show(field ? `${field.title}: ${detail}` : detail);
  }

  /** @param {import("./display.js").ShownFrame} frame */
  #onFrame(frame) {
    this.#stats.addFrame(frame.time);
    this.#clearFailure();
    if (frame.identity) this.#onIdentified(frame.identity, frame);
    else if (frame.rtp !== undefined) this.#frames.addPresentation(frame.rtp, frame);
  }

  /**
   * @param {FrameIdentity} identity
   * @param {Presentation} presentation
   */
  #onIdentified({ epoch, seq, index, actionSeq }, { time, received = 0, decoded = 0 }) {
    /** @type {PresentedFrame} */
    const frame = { epoch, seq, index, presented: time };
    const press = this.#latency.addFrame(actionSeq, time);
    if (press) frame.press = { seq: press.seq, t: press.time };
    if (received > 0) frame.received = received;
    if (decoded > 0) frame.decoded = decoded;
    this.#reporter.add(this.#session.viewer?.id ?? null, frame);
  }

  /** Drops key presses and frames that belong to the rollout before a reset or a pause. */
  #dropPending() {
    this.#latency.clear();
    this.#frames.clear();
    this.#reporter.clear();
  }

  /** @param {SessionEvent} event */
  #onEvent({ event, reason, error, fatal }) {
    if (event === "reset_done") this.#undo.onStart();
    if (event === "reset_done") this.#dropPending();
    if (event === "rejected" && reason) this.#toasts.show(reason);
    if (event === "failed" && !fatal && error) this.#onFailure(error);
    if (event === "reset_done") this.#clearFailure();
    if (event === "active_changed") this.#showStatus();
    if (event === "reset_done" || event === "finished") this.#showState();
  }

  /** @param {string} text */
  #onFailure(text) {
    this.#failure.set(text);
    if (this.#state === "live") this.#toasts.show(text);
    else this.#showFailure();
  }

  #showFailure() {
    const mayShow = this.#state !== "ended" && this.#state !== "waiting" && this.#session.isRunning;
    if (mayShow) this.#failure.show(this.#state === "live", this.#display.resolution !== "");
  }

  #clearFailure() {
    if (this.#failure.clear() && this.#state === "live" && !this.#session.isFinished) this.#overlay.hide();
  }

  /** @param {import("./session.js").SessionEvents["state"]} change */
  #onState({ state, text, detail, status, seconds }) {
    this.#state = state;
    this.#statusLabel = status;
    this.#isAsking = false;
    document.title = this.#title;
    if (state !== "live") this.#stats.clear();
    if (state !== "live") this.#undo.cancel();
    const translucent = this.#display.resolution !== "";
    if (state === "connecting" || state === "reconnecting") {
      this.#overlay.show(text, { text: detail && `${detail} Retrying.`, progress: null, translucent });
    }
    if (state === "waiting") {
      this.#overlay.show(text, { text: `${detail} Retrying in ${seconds} s`.trim(), progress: null });
    }
    if (state === "ended" && this.#isGuest) {
      this.#overlay.show("Nothing to watch", { text, translucent });
    } else if (state === "ended") {
      const onClick = () => this.#session.start();
      this.#overlay.show("The session has ended", { text, translucent, button: "Start again", onClick });
    }
    if (state !== "live") this.#turn.set(null);
    if (state === "ended") this.#failure.clear();
    this.#lobby.hide();
    this.#showState();
    this.#showFailure();
  }

  /** @param {import("./api.js").TicketStatus} status */
  #showLine(status) {
    this.#state = "waiting";
    this.#statusLabel = "";
    this.#lobby.show();
    const isReserved = status.state === "reserved";
    this.#overlay.show(isReserved ? "It is your turn" : `Number ${status.position} in line`, {
      text: isReserved ? "Open this tab to start." : describeWait(status),
      progress: null,
      button: "Leave the line",
      onClick: () => this.#session.leaveLine(),
    });
    document.title = isReserved ? `Your turn: ${this.#title}` : `(${status.position}) ${this.#title}`;
    this.#showState();
  }

  #showTurnOver() {
    this.#state = "ended";
    this.#statusLabel = "";
    this.#overlay.show("Your turn has ended", {
      text: "Others are waiting.",
      translucent: this.#display.resolution !== "",
      button: "Join the line again",
      onClick: () => this.#session.start(),
    });
    this.#showState();
  }

  /** Shows what follows from the state of the session: buttons, status, and the overlay of a connected session. */
  #showState() {
    const { grant, isFinished, role } = this.#session;
    this.#takeOver.update();
    for (const id of ["reset", "seed", "trace", "share"]) byId(id, HTMLButtonElement).disabled = !grant;
    byId("pause", HTMLButtonElement).disabled = !grant || isFinished;
    byId("hint").hidden = this.#state !== "live" || isFinished || !this.#pointer.canLock || role === "viewer";
    if (this.#state === "live" && isFinished) this.#showFinished();
    else if (this.#state === "live") this.#overlay.hide();
    this.#showStatus();
  }

  #showFinished() {
    if (this.#session.role !== "owner") {
      this.#overlay.show("Finished", { text: "The rollout has ended.", translucent: true });
      return;
    }
    this.#overlay.show("Finished", {
      text: "The rollout has ended.",
      translucent: true,
      button: "Start again",
      onClick: () => this.#run(byId("overlay-button"), () => this.#reset()),
    });
  }

  #showStatus() {
    const { active, isFinished, isRunning, role } = this.#session;
    if (!isRunning) this.#dropPending();
    /** @type {Status} */
    let shown = this.#state;
    if (shown === "live" && !active) shown = "paused";
    if (this.#state === "live" && isFinished) shown = "finished";
    const status = byId("status");
    status.dataset.state = shown;
    const label = this.#statusLabel || STATUS_LABELS[shown];
    status.textContent = shown === "live" && role === "viewer" ? "Watching" : label;
    byId("pause").textContent = active ? "Pause" : "Resume";
    byId("stage").classList.toggle("paused", shown === "paused");
  }

  /** @param {string | null} text */
  #showNotice(text) {
    byId("notice").hidden = !text;
    byId("notice-text").textContent = text ?? "";
    byId("notice-retry").hidden = unsupportedReason("webrtc") !== null;
  }

  /**
   * Asks the user to fill in the form before a session starts.
   *
   * @param {Problem | null} problem names the fields that the server has rejected
   */
  #askForFields(problem = null) {
    this.#isAsking = true;
    byId("status").textContent = "Not started";
    byId("status").dataset.state = "waiting";
    if (problem) this.#showErrors(problem);
    const titles = this.#form.missing.map((field) => field.title).join(", ");
    this.#overlay.show("Ready to start", {
      text: problem ? this.#describeRefusal(problem) : `Required: ${titles}.`,
      button: "Start",
      onClick: () => this.#startIfComplete(),
    });
  }

  /** @param {Problem} problem */
  #describeRefusal(problem) {
    const isMarked = [...problem.fields.keys()].some((name) => this.#form.field(name));
    return isMarked ? "Correct the marked fields, then start." : problem.message;
  }

  #startIfComplete() {
    const { missing } = this.#form;
    if (!missing.length) {
      this.#session.start();
      return;
    }
    this.#form.showErrors(new Map(missing.map(({ name }) => [name, "This field is required."])));
    this.#form.focusError();
  }

  /** @param {Problem} problem */
  #showErrors(problem) {
    const unknown = this.#form.showErrors(problem.fields);
    this.#form.focusError();
    if (problem.fields.size === 0 || unknown.length) this.#toasts.show(problem.message);
  }
}

async function toggleFullscreen() {
  if (document.fullscreenElement) await document.exitFullscreen();
  else await byId("screen").requestFullscreen();
}
