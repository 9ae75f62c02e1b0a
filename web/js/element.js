import { byId, create } from "./dom.js";
import { STYLE, TEMPLATE } from "./element_template.js";
import { connect, EmbeddedSession } from "./embedded_session.js";
import { GamepadPoller } from "./gamepad.js";
import { Keyboard } from "./keyboard.js";
import { Overlay } from "./overlay.js";
import { Pointer } from "./pointer.js";
import { Stick } from "./stick.js";
import { transportNamed } from "./transports.js";
import { TurnCountdown } from "./turn_countdown.js";
import { describeWait } from "./waiting_line.js";

/** @import { Demo, TicketStatus } from "./api.js" */
/** @import { StateChange } from "./embedded_session.js" */

/** @type {Record<StateChange["state"], string>} */
const TITLES = {
  loading: "Loading",
  connecting: "Connecting",
  waiting: "All places are taken",
  live: "",
  finished: "Finished",
  reconnecting: "Reconnecting",
  ended: "The session has ended",
};

/**
 * `<realtime-engine src="...">`: a demo in a page of any site.
 *
 * Attributes: `src`, the address of the demo; `token` of a server that requires one; `watch` or `join`, the token of an invitation;
 * `transport`, the only one to use; `autoplay`, to start without a click. Events: `state`, `ticket`, `message`, each with
 * its content in `detail`. Keys count while the element has the focus.
 */
export class RealtimeEngineElement extends HTMLElement {
  static observedAttributes = ["src", "token", "watch", "join", "transport"];

  #root = this.attachShadow({ mode: "open", delegatesFocus: true });
  /** @type {EmbeddedSession | null} */
  #session = null;
  /** @type {AbortController | null} */
  #listening = null;

  /** @type {Record<string, unknown>} Values of the demo's fields for the next session. */
  context = {};
  /** @type {number | undefined} Seconds to wait in line for a place; by default as long as it takes. */
  queueTimeout;

  /** The session, null before it starts. */
  get session() {
    return this.#session;
  }

  connectedCallback() {
    this.#open();
  }

  disconnectedCallback() {
    this.#close();
  }

  attributeChangedCallback() {
    if (this.isConnected && this.#root.childElementCount > 0) this.#open();
  }

  /** Starts a session, or starts again after the end. */
  play() {
    if (!this.#session) this.#connect();
    else if (this.#session.state.state === "finished") this.#reset(this.#session);
    else if (this.#session.state.state === "ended") this.#session.start();
  }

  /** Shows the element for the current attributes. */
  #open() {
    this.#close();
    const style = new CSSStyleSheet(); // a page may forbid other kinds of style
    style.replaceSync(STYLE);
    this.#root.adoptedStyleSheets = [style];
    this.#root.replaceChildren(create("template", { innerHTML: TEMPLATE }).content);
    const overlay = new Overlay(this.#root);
    if (!this.hasAttribute("src")) overlay.show("Nothing to show", { text: "The attribute src is missing." });
    else if (this.hasAttribute("autoplay")) this.#connect();
    else overlay.show(this.title || "Interactive demo", { button: "Play", onClick: () => this.#playByHand() });
  }

  #close() {
    this.#listening?.abort();
    this.#session?.close();
    this.#session = null;
  }

  #playByHand() {
    this.play();
    this.#stage.focus({ preventScroll: true }); // the button that had the focus is hidden now
  }

  get #stage() {
    return byId("stage", HTMLElement, this.#root);
  }

  #connect() {
    const overlay = new Overlay(this.#root);
    /** @type {EmbeddedSession} */
    let session;
    try {
      session = new EmbeddedSession(this.getAttribute("src") ?? "", {
        context: this.context,
        token: this.getAttribute("token"),
        watch: this.getAttribute("watch"),
        join: this.getAttribute("join"),
        transport: transportNamed(this.getAttribute("transport")),
        queueTimeout: this.queueTimeout,
      });
    } catch {
      overlay.show("Nothing to show", {
        text: `The attribute src is not a valid address: ${this.getAttribute("src")}`,
      });
      return;
    }
    this.#session = session;
    this.#stage.prepend(session.element);
    const turn = new TurnCountdown(byId("turn", HTMLElement, this.#root));
    session.on("demo", (demo) => this.#listen(session, demo));
    session.on("state", (change) => this.#show(session, overlay, change));
    session.on("ticket", (status) => this.#showTicket(session, overlay, status));
    session.on("turn", ({ seconds, isIdle }) => turn.set(seconds, isIdle));
    session.on("message", (detail) => this.dispatchEvent(new CustomEvent("message", { detail })));
    session.start();
  }

  /**
   * Listens to the devices that the demo reads.
   *
   * @param {EmbeddedSession} session
   * @param {Demo} demo
   */
  #listen(session, demo) {
    this.#listening?.abort();
    this.#listening = new AbortController();
    const { signal } = this.#listening;
    const [stage, sticks] = [this.#stage, byId("sticks", HTMLElement, this.#root)];
    const help = session.isWatching ? "" : " While it has the focus, keys and pointer control it.";
    stage.setAttribute("aria-label", `${demo.title || demo.name}, live video.${help}`);
    if (session.isWatching) return;
    new Keyboard(session.input, demo.controls).listen(stage, signal);
    new Pointer(stage, session.input, demo.controls, () => session.aspect).listen(signal);
    if (demo.controls.gamepad) new GamepadPoller(session.input).listen(signal);
    stage.addEventListener("blur", () => session.releaseControls(), { signal });
    sticks.replaceChildren(...demo.controls.sticks.map((name) => new Stick(name, session.input).element));
    sticks.hidden = !demo.controls.sticks.length || !matchMedia("(pointer: coarse)").matches;
  }

  /**
   * @param {EmbeddedSession} session
   * @param {Overlay} overlay
   * @param {StateChange} change
   */
  #show(session, overlay, change) {
    const { state, text, progress = null } = change;
    const isOver = state === "ended" || state === "finished";
    if (state === "live") overlay.hide();
    else {
      overlay.show(TITLES[state], {
        text,
        progress: isOver ? undefined : progress,
        button: isOver && !session.isWatching ? "Start again" : "",
        onClick: () => this.#playByHand(),
        translucent: session.aspect !== null,
      });
    }
    this.dispatchEvent(new CustomEvent("state", { detail: change }));
  }

  /**
   * @param {EmbeddedSession} session
   * @param {Overlay} overlay
   * @param {TicketStatus} status
   */
  #showTicket(session, overlay, status) {
    overlay.show(`Number ${status.position} in line`, {
      text: describeWait(status),
      progress: null,
      button: "Leave the line",
      onClick: () => session.leaveLine(),
    });
    this.dispatchEvent(new CustomEvent("ticket", { detail: status }));
  }

  /** @param {EmbeddedSession} session */
  async #reset(session) {
    try {
      await session.reset();
    } catch {
      session.start(); // the session is gone
    }
  }
}

/** Defines the element, unless another script of the page has. */
export function define() {
  if (!customElements.get("realtime-engine")) customElements.define("realtime-engine", RealtimeEngineElement);
}

export { connect };
