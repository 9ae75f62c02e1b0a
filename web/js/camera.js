import { messageOf, Problem } from "./api.js";
import { refreshDemo } from "./demo_watch.js";
import { byId } from "./dom.js";
import { openCamera, openFile } from "./source.js";
import { Backoff, sleep } from "./timing.js";
import { WhipPublisher } from "./whip.js";

/** @import { Demo, SessionGrant } from "./api.js" */

const MAX_BITRATE = 1_800_000;
const IDLE = "Not sending";

/** The panel that sends the user's own video to the session. */
export class Camera {
  #demo;
  #maxSide;
  #session;
  #selfView = byId("self-view", HTMLVideoElement);
  /** @type {import("./source.js").Source | null} */
  #source = null;
  #abort = new AbortController();

  /**
   * @param {Demo} demo
   * @param {number} maxSide longest side of the video in pixels
   * @param {import("./session.js").Session} session
   */
  constructor(demo, maxSide, session) {
    this.#demo = demo;
    this.#maxSide = maxSide;
    this.#session = session;
  }

  /**
   * Whether the demo takes video and this browser can send it.
   *
   * @param {Demo} demo
   */
  static isAvailable(demo) {
    return Boolean(demo.video_input) && WhipPublisher.isSupported;
  }

  /** Shows the panel, and starts to listen. */
  listen() {
    byId("source").hidden = false;
    byId("source-camera").addEventListener("click", () => this.#open(() => openCamera(this.#maxSide)));
    byId("source-stop").addEventListener("click", () => this.#stop());
    const file = byId("source-file", HTMLInputElement);
    file.addEventListener("change", () => {
      const chosen = file.files?.[0];
      if (chosen) this.#open(() => openFile(chosen, this.#maxSide));
      file.value = ""; // so that the same file can be chosen again
    });
    for (const id of ["source-address", "source-token"]) {
      const input = byId(id, HTMLInputElement);
      input.addEventListener("focus", () => input.select());
    }
    this.#session.on("created", (grant) => this.#onCreated(grant));
    this.#session.on("state", ({ state }) => {
      if (state === "ended") this.#stop();
    });
    addEventListener("pagehide", () => this.#stop());
    this.#show(IDLE, "idle");
  }

  /** @param {() => Promise<import("./source.js").Source>} open */
  async #open(open) {
    this.#stop();
    const { signal } = this.#abort;
    this.#show("Starting", "busy");
    let source;
    try {
      source = await open();
    } catch (error) {
      if (!signal.aborted) this.#fail(messageOf(error));
      return;
    }
    if (signal.aborted) {
      source.stop();
      return;
    }
    this.#source = source;
    source.track.addEventListener("ended", () => {
      if (!signal.aborted) this.#fail("The camera was disconnected.");
    });
    this.#selfView.srcObject = new MediaStream([source.track]);
    this.#selfView.classList.toggle("mirrored", source.isCamera);
    this.#send();
  }

  /** Sends the source to the session, and reconnects when the connection is lost. */
  async #send() {
    const { signal } = this.#abort;
    const backoff = new Backoff();
    while (this.#source && this.#session.grant && !signal.aborted) {
      this.#show("Connecting", "busy");
      try {
        const isLost = await this.#publish(this.#source, this.#session.grant, signal, () => backoff.reset());
        if (!isLost) return;
      } catch (error) {
        if (signal.aborted) return;
        if (error instanceof Problem && error.status < 500) {
          this.#fail(error.message);
          return;
        }
        this.#show(`${messageOf(error)}. Retrying`, "busy");
      }
      await sleep(backoff.next(), signal).catch(() => {});
    }
  }

  /**
   * Sends the source until the connection ends.
   *
   * @param {import("./source.js").Source} source
   * @param {SessionGrant} grant
   * @param {AbortSignal} signal
   * @param {() => void} onConnected
   * @returns {Promise<boolean>} whether to reconnect: the connection was lost, and no other client sends video
   */
  async #publish(source, grant, signal, onConnected) {
    if (!grant.whip) throw new Error("This session takes no video");
    await refreshDemo(this.#demo);
    signal.throwIfAborted();
    const publisher = new WhipPublisher(this.#demo.ice_servers, grant.token);
    const stop = () => publisher.stop();
    signal.addEventListener("abort", stop, { once: true });
    try {
      const options = { maxSide: this.#maxSide, maxBitrate: MAX_BITRATE };
      if (!(await publisher.start(source.track, grant.whip, options))) return false;
      onConnected();
      this.#show(source.text, "live");
      await publisher.ended;
      if (signal.aborted || grant !== this.#session.grant) return false;
      const { publisher: current } = await grant.describe();
      if (current === null || current === publisher.id) return true;
      this.#fail("Another source, such as OBS, now sends video to this session.");
      return false;
    } finally {
      signal.removeEventListener("abort", stop);
      await publisher.stop();
    }
  }

  /** @param {SessionGrant} grant */
  #onCreated(grant) {
    byId("source-address", HTMLInputElement).value = grant.whip?.href ?? "";
    byId("source-token", HTMLInputElement).value = grant.token;
    if (!this.#source) return;
    this.#abortWork();
    this.#send();
  }

  #stop() {
    this.#abortWork();
    this.#source?.stop();
    this.#source = null;
    this.#selfView.srcObject = null;
    this.#show(IDLE, "idle");
  }

  #abortWork() {
    this.#abort.abort();
    this.#abort = new AbortController();
  }

  /** @param {string} message */
  #fail(message) {
    this.#stop();
    byId("source-error").textContent = message;
    byId("source-error").hidden = false;
  }

  /**
   * @param {string} text
   * @param {"idle" | "busy" | "live"} state
   */
  #show(text, state) {
    byId("source").dataset.state = state;
    byId("source-text").textContent = text;
    byId("source-error").hidden = true;
    byId("source-stop").hidden = state === "idle";
    byId("source-camera").hidden = state !== "idle";
    this.#selfView.hidden = !this.#source;
  }
}
