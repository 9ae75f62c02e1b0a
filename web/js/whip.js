import { request } from "./api.js";

const CONNECT_MS = 8000;
/** How long a connection may be interrupted before it counts as lost. */
const INTERRUPTION_MS = 3000;
/** How long the offer waits for this side's candidates; the server finds later ones by the checks that it receives. */
const GATHER_MS = 400;
const BLOCKED = "Your video could not be sent by WebRTC (UDP blocked?)";

/**
 * Sends one video into a session by WebRTC, negotiated by WHIP (RFC 9725).
 *
 * `ended` resolves with true when the connection was lost after it was there, with false when it was stopped.
 */
export class WhipPublisher {
  #pc = new RTCPeerConnection();
  #location = null;
  #token = "";
  #interruption = 0;
  #end;

  /** Whether this browser can do it. */
  static get isSupported() {
    return typeof RTCPeerConnection === "function";
  }

  constructor() {
    this.ended = new Promise((resolve) => (this.#end = resolve));
  }

  /** @returns {string | null} the name by which the server knows this publisher */
  get id() {
    return this.#location?.pathname.split("/").pop() ?? null;
  }

  /**
   * Resolves when the video is being sent; rejects with the reason if it cannot be.
   *
   * @param {MediaStreamTrack} track
   * @param {import("./api.js").Place} place
   * @param {object} options
   * @param {RTCIceServer[]} options.iceServers
   * @param {number} options.maxSide pixels that the longer side may have on the wire
   * @param {number} options.maxBitrate bits per second
   */
  async start(track, place, { iceServers, maxSide, maxBitrate }) {
    const pc = this.#pc;
    pc.setConfiguration({ iceServers });
    this.#token = place.token;
    const { width = 0, height = 0 } = track.getSettings();
    const encoding = { maxBitrate, maxFramerate: 30, scaleResolutionDownBy: Math.max(1, Math.max(width, height) / maxSide) };
    const { sender } = pc.addTransceiver(track, { direction: "sendonly", sendEncodings: [encoding] });
    await Promise.all([this.#connected(), this.#negotiate(place)]);
    await keepPace(sender, track);
  }

  /** Sends no more. */
  async stop() {
    clearTimeout(this.#interruption);
    this.#pc.close();
    this.#end(false);
    if (!this.#location) return;
    await request("DELETE", this.#location, { token: this.#token, keepalive: true }).catch(() => {});
  }

  #connected() {
    return new Promise((resolve, reject) => {
      const deadline = setTimeout(() => reject(new Error(BLOCKED)), CONNECT_MS);
      this.ended.then(() => clearTimeout(deadline));
      this.#pc.addEventListener("connectionstatechange", () => {
        const state = this.#pc.connectionState;
        clearTimeout(this.#interruption);
        if (state === "connected") {
          clearTimeout(deadline);
          resolve();
        }
        if (state === "failed" || state === "closed") {
          reject(new Error(BLOCKED));
          this.#end(true);
        }
        if (state === "disconnected") this.#interruption = setTimeout(() => this.#end(true), INTERRUPTION_MS);
      });
    });
  }

  async #negotiate(place) {
    const pc = this.#pc;
    await pc.setLocalDescription(await pc.createOffer());
    await gathered(pc);
    const response = await request("POST", place.whip, {
      token: this.#token,
      headers: { "Content-Type": "application/sdp" },
      body: pc.localDescription.sdp,
    });
    this.#location = new URL(response.headers.get("Location"), place.whip);
    await pc.setRemoteDescription({ type: "answer", sdp: await response.text() });
  }
}

function gathered(pc) {
  return new Promise((resolve) => {
    if (pc.iceGatheringState === "complete") resolve();
    pc.addEventListener("icegatheringstatechange", () => pc.iceGatheringState === "complete" && resolve());
    setTimeout(resolve, GATHER_MS);
  });
}

/** When the rate is too low for all, moving pictures give up detail, still ones give up frames. */
async function keepPace(sender, track) {
  const parameters = sender.getParameters();
  parameters.degradationPreference = track.contentHint === "detail" ? "maintain-resolution" : "maintain-framerate";
  await sender.setParameters(parameters).catch(() => {}); // not every browser knows the preference
}
