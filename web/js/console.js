import { Acknowledger } from "./acknowledger.js";
import { Camera } from "./camera.js";
import { ControlChannel } from "./channel.js";
import { ServerClock } from "./clock.js";
import { SchemaForm } from "./form.js";
import { FrameMatcher } from "./frames.js";
import { GamepadPoller } from "./gamepad.js";
import { Input } from "./input.js";
import { Keyboard } from "./keyboard.js";
import { KeyToPixel } from "./latency.js";
import { Legend } from "./legend.js";
import { Picture } from "./picture.js";
import { Pointer } from "./pointer.js";
import { Recorder } from "./recorder.js";
import { Sender } from "./sender.js";
import { Session } from "./session.js";
import { Stats } from "./stats.js";
import { Stick } from "./stick.js";
import { Toasts } from "./toasts.js";
import { WebrtcViewer } from "./webrtc.js";

const STATS_MS = 500;
const SHORT = {
  connecting: "Connecting",
  waiting: "Waiting",
  live: "Live",
  paused: "Paused",
  reconnecting: "Reconnecting",
  ended: "Ended",
};

/** Everything a person touches, joined to one session of a demo that is ready. */
export class Console {
  #demo;
  #overlay;
  #find;
  #input = new Input();
  #channel = new ControlChannel();
  #latency = new KeyToPixel();
  #clock = new ServerClock();
  #frames = new FrameMatcher((identity, picture) => this.#identified(identity, picture));
  #acknowledger = new Acknowledger(this.#clock, (body) => this.#sender.presented(body));
  #sender;
  #form;
  #picture;
  #pointer;
  #legend;
  #session;
  #stats;
  #toasts;
  #state = "connecting";
  #asking = false;

  /**
   * @param {object} demo the answer of `GET /api/demo`
   * @param {import("./overlay.js").Overlay} overlay
   * @param {string | null} forced transport that the address asks for
   * @param {(id: string) => HTMLElement} find looks up an element of the page
   */
  constructor(demo, overlay, forced, find) {
    this.#demo = demo;
    this.#overlay = overlay;
    this.#find = find;
    this.#toasts = new Toasts(find("toasts"));
    this.#form = new SchemaForm(find("form"), demo.controls, demo.required_context);
    this.#picture = new Picture(find("video"), find("canvas"), find("image"), demo.video);
    this.#sender = new Sender(this.#input, this.#channel);
    this.#legend = new Legend(find("legend"), demo.controls, this.#input);
    this.#pointer = new Pointer(find("stage"), this.#input, demo.controls, () => this.#picture.aspect);
    this.#stats = new Stats(find("stats"), find("details"), this.#latency, () => this.#picture.resolution);
    const viewer = (transport) => this.#picture.viewer(transport, (frame) => this.#presented(frame));
    this.#session = new Session(demo, this.#channel, viewer, () => this.#form.values, forced);
  }

  /** Starts at once, or waits for the fields that the demo cannot do without. */
  begin() {
    this.#lay();
    this.#joinInput();
    this.#joinSession();
    this.#joinButtons();
    this.#joinPage();
    if (Camera.isFor(this.#demo)) new Camera(this.#find, this.#demo, this.#session).listen();
    if (Recorder.isFor(this.#demo)) this.#joinRecorder();
    setInterval(() => this.#stats.update(this.#session), STATS_MS);
    if (this.#form.missing.length) this.#askForFields();
    else this.#session.start();
  }

  #lay() {
    const { controls, page } = this.#demo;
    this.#find("form").hidden = this.#form.isEmpty;
    this.#find("legend").hidden = !controls.keys.length;
    this.#find("key-to-pixel").hidden = !controls.keys.length;
    this.#find("seed").hidden = this.#form.field("seed")?.kind !== "number";
    this.#find("fullscreen").hidden = !document.fullscreenEnabled;
    const elsewhere = Boolean(page) && new URL(page, location).pathname !== location.pathname;
    this.#find("own-page").hidden = !elsewhere;
    if (elsewhere) this.#find("own-page-link").href = page;
    this.#find("panel").hidden = this.#form.isEmpty && !elsewhere && !Camera.isFor(this.#demo);
    this.#find("sticks").append(...controls.sticks.map((name) => new Stick(name, this.#input).element));
    this.#find("sticks").hidden = !controls.sticks.length || !matchMedia("(pointer: coarse)").matches;
  }

  #joinInput() {
    this.#input.onChange = (urgent) => {
      this.#sender.changed(urgent);
      this.#legend.update();
    };
    this.#sender.onPress = (seq, time) => this.#session.active && this.#latency.press(seq, time);
    this.#sender.onPong = (sent, serverNs, received) => {
      this.#stats.roundTrip(received - sent);
      this.#clock.pong(sent, serverNs, received);
    };
    this.#sender.start();
    new Keyboard(this.#input, this.#demo.controls).listen();
    this.#pointer.listen();
    if (this.#demo.controls.gamepad) new GamepadPoller(this.#input).listen();
    this.#find("form").addEventListener("submit", () => this.#asking && this.#startIfComplete());
    this.#find("form").addEventListener("click", (event) => this.#returnFocus(event));
    this.#form.onChange = (name, value) => this.#setField(name, value);
  }

  #joinSession() {
    const session = this.#session;
    session.addEventListener("state", ({ detail }) => this.#showState(detail));
    session.addEventListener("place", () => {
      this.#clock.clear();
      this.#contextGiven();
    });
    session.addEventListener("fallback", ({ detail }) => this.#showNotice(detail));
    session.addEventListener("refused", ({ detail }) => this.#askForFields(detail));
    session.addEventListener("server", ({ detail }) => this.#hearEvent(detail));
    this.#channel.addEventListener("message", ({ detail }) => {
      if (detail.type === "frame" && detail.rtp !== null) this.#frames.identify(detail);
      if (detail.type === "timing") this.#stats.timing(detail.stages);
      if (detail.type === "error") this.#showRefusal(detail.error);
    });
  }

  #joinButtons() {
    this.#on("reset", () => this.#reset());
    this.#on("seed", () => this.#newSeed());
    this.#on("pause", () => this.#togglePause());
    this.#on("notice-retry", async () => this.#session.retryWebrtc());
    this.#on("fullscreen", () =>
      document.fullscreenElement ? document.exitFullscreen() : this.#find("screen").requestFullscreen());
    this.#on("trace", () => this.#saveTrace());
    this.#on("stats-toggle", async (button) => {
      const table = this.#find("details");
      table.hidden = !table.hidden;
      this.#acknowledger.wantsTiming = !table.hidden;
      this.#find("trace").hidden = table.hidden;
      button.setAttribute("aria-pressed", !table.hidden);
      await this.#stats.update(this.#session);
    });
  }

  #joinRecorder() {
    const recorder = new Recorder(this.#find, this.#session, (text) => this.#toasts.show(text));
    recorder.listen();
    this.#on("record", () => recorder.toggle());
  }

  async #saveTrace() {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(await this.#session.trace());
    link.download = "trace.json";
    link.click();
    URL.revokeObjectURL(link.href);
  }

  #joinPage() {
    const blur = () => this.#sender.blur();
    addEventListener("blur", blur);
    document.addEventListener("visibilitychange", () => document.hidden && blur());
    addEventListener("pagehide", () => this.#session.close());
    addEventListener("pageshow", (event) => event.persisted && location.reload());
  }

  /** A button works once at a time, and what goes wrong is said. */
  #on(id, act) {
    const button = this.#find(id);
    button.addEventListener("click", async (event) => {
      if (button.getAttribute("aria-busy") === "true") return;
      button.setAttribute("aria-busy", "true");
      this.#returnFocus(event);
      try {
        await act(button);
      } catch (error) {
        if (error.status === 422) this.#showErrors(error);
        else this.#toasts.show(error.message);
      } finally {
        button.removeAttribute("aria-busy");
      }
    });
  }

  /** After a click the keys steer again; who works a control with the keyboard stays there. */
  #returnFocus(event) {
    if (event.detail === 0 || !event.target.matches("button, [type=range], [type=radio], [type=checkbox]")) return;
    this.#find("stage").focus({ preventScroll: true });
  }

  async #reset() {
    const changed = Object.keys(this.#input.changedFields).length > 0;
    await this.#session.reset(changed ? this.#form.values : {});
    this.#contextGiven();
  }

  async #newSeed() {
    const { min = 0, max = 2 ** 31 - 1 } = this.#form.field("seed");
    const seed = min + Math.floor(Math.random() * (max - min + 1));
    await this.#session.reset({ ...this.#form.values, seed });
    this.#form.set("seed", seed);
    this.#contextGiven();
  }

  async #togglePause() {
    await this.#session.setActive(!this.#session.active);
    this.#showActive();
  }

  #contextGiven() {
    this.#input.contextGiven();
    this.#forget();
    this.#form.showErrors(new Map());
  }

  #setField(name, value) {
    if (this.#input.setField(name, value) || !this.#session.hasPlace) return;
    this.#toasts.show(`${this.#form.field(name).title} takes effect with the next reset.`);
  }

  #showRefusal({ detail, field }) {
    const known = this.#form.field(field);
    if (known) this.#form.showErrors(new Map([[field, detail]]));
    this.#toasts.show(known ? `${known.title}: ${detail}` : detail);
  }

  #presented(frame) {
    this.#stats.frame(frame.time);
    if (frame.identity) this.#identified(frame.identity, frame);
    else if (frame.rtp !== undefined) this.#frames.present(frame);
  }

  #identified({ epoch, seq, index, actionSeq }, { time, received, decoded }) {
    const shown = { epoch, seq, index, presented: time };
    const press = this.#latency.show(actionSeq, time);
    if (press) shown.press = { seq: press.seq, t: press.time };
    if (received > 0) shown.received = received;
    if (decoded > 0) shown.decoded = decoded;
    this.#acknowledger.show(this.#session.viewer?.id ?? null, shown);
  }

  /** What was pressed and shown before does not count for what comes now. */
  #forget() {
    this.#latency.forget();
    this.#frames.forget();
    this.#acknowledger.clear();
  }

  #hearEvent(message) {
    if (message.event === "reset_done") this.#forget();
    if (message.event === "active_changed") this.#showActive();
    if (message.event === "rejected") this.#toasts.show(message.reason);
    if (message.event === "failed" && !message.fatal) this.#toasts.show(message.error);
  }

  #showState({ state, text, seconds }) {
    this.#state = state;
    this.#asking = false;
    for (const id of ["reset", "pause", "seed", "trace"]) this.#find(id).disabled = !this.#session.hasPlace;
    this.#find("hint").hidden = state !== "live" || !this.#pointer.canLock;
    if (state !== "live") this.#stats.clear();
    const soft = this.#picture.resolution !== "";
    if (state === "live") this.#overlay.hide();
    if (state === "connecting" || state === "reconnecting") this.#overlay.show(text, { progress: null, soft });
    if (state === "waiting") {
      this.#overlay.show("All places are taken", { text: `Trying again in ${seconds} s`, progress: null });
    }
    if (state === "ended") {
      const again = { button: "Start again", onClick: () => this.#session.start() };
      this.#overlay.show("The session has ended", { text, soft, ...again });
    }
    this.#showActive();
  }

  #showActive() {
    if (!this.#session.active) this.#forget();
    const paused = this.#state === "live" && !this.#session.active;
    const status = this.#find("status");
    status.dataset.state = paused ? "paused" : this.#state;
    status.textContent = SHORT[status.dataset.state];
    this.#find("pause").textContent = this.#session.active ? "Pause" : "Resume";
    this.#find("stage").classList.toggle("paused", paused);
  }

  #showNotice(text) {
    this.#find("notice").hidden = !text;
    this.#find("notice-text").textContent = text ?? "";
    this.#find("notice-retry").hidden = !WebrtcViewer.isSupported;
  }

  /** Lets the person fill the form before a place is taken; `problem` names the fields that the server refused. */
  #askForFields(problem = null) {
    this.#asking = true;
    this.#find("status").textContent = "Not started";
    this.#find("status").dataset.state = "waiting";
    if (problem) this.#showErrors(problem);
    const titles = this.#form.missing.map((name) => this.#form.field(name).title).join(", ");
    this.#overlay.show("Ready when you are", {
      text: problem ? "Correct the marked fields, then start." : `This demo needs: ${titles}.`,
      button: "Start",
      onClick: () => this.#startIfComplete(),
    });
  }

  #startIfComplete() {
    const { missing } = this.#form;
    if (!missing.length) {
      this.#session.start();
      return;
    }
    this.#form.showErrors(new Map(missing.map((name) => [name, "This is needed to start."])));
    this.#form.focusError();
  }

  #showErrors(problem) {
    const unknown = this.#form.showErrors(problem.fields);
    this.#form.focusError();
    if (problem.fields.size === 0 || unknown.length) this.#toasts.show(problem.message);
  }
}
