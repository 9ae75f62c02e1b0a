import { request } from "./api.js";

/** A connection must be there after this time, and a picture as long after its first packet. */
const CONNECT_MS = 4000;
/** How long a connected server may take to its first packet: the model may still be warming up. */
const PATIENCE_MS = 30_000;
/** How long a connection may be interrupted before it counts as lost. */
const INTERRUPTION_MS = 3000;
const CANDIDATE_BATCH_MS = 50;
const BLOCKED = "WebRTC could not connect (UDP blocked?)";

/**
 * Shows a session by WebRTC, received with WHEP (draft-ietf-wish-whep): the offer goes at once, candidates trickle after it.
 *
 * `ended` resolves with the reason when the picture is lost after it was shown, with "" when it was stopped.
 */
export class WebrtcViewer {
  #pc = null;
  #location = null;
  #token;
  #etag = null;
  #candidates = [];
  #timer = 0;
  #interruption = 0;
  #deadline = 0;
  #stopped = false;
  #end;

  /** Whether this browser can do it. */
  static get isSupported() {
    return typeof RTCPeerConnection === "function";
  }

  /**
   * @param {HTMLVideoElement} video
   * @param {(frame: {time: number, rtp?: number, received?: number, decoded?: number}) => void} onFrame called for each
   *   frame shown; `received` and `decoded` are undefined or NaN where the browser does not tell
   */
  constructor(video, onFrame) {
    this.video = video;
    this.onFrame = onFrame;
    this.ended = new Promise((resolve) => (this.#end = resolve));
  }

  /**
   * Resolves when the first picture is there; rejects with the reason if it does not come.
   *
   * @param {import("./api.js").Place} place
   * @param {object} options
   * @param {RTCIceServer[]} options.iceServers
   * @param {RTCIceTransportPolicy} options.iceTransportPolicy
   * @param {import("./channel.js").ControlChannel} options.channel gets the data channel
   * @param {boolean} options.expectPicture without it (the session is paused) a connection is enough
   * @param {AbortSignal} options.signal
   */
  async start(place, { iceServers, iceTransportPolicy, channel, expectPicture, signal }) {
    this.#token = place.token;
    const pc = new RTCPeerConnection({ iceServers, iceTransportPolicy, bundlePolicy: "max-bundle" });
    this.#pc = pc;
    const { receiver } = pc.addTransceiver("video", { direction: "recvonly" });
    if ("jitterBufferTarget" in receiver) receiver.jitterBufferTarget = 0;
    const data = pc.createDataChannel("controls", { ordered: true });
    channel.adopt(data);
    data.addEventListener("close", () => this.#end("the connection was closed"));
    await Promise.all([this.#shown(expectPicture, signal), this.#negotiate(place, signal)]);
  }

  /** What the server calls this connection; null before it has answered. */
  get id() {
    return this.#location?.pathname.split("/").pop() ?? null;
  }

  /** Hangs up. */
  async stop() {
    this.#stopped = true;
    clearTimeout(this.#timer);
    clearTimeout(this.#interruption);
    clearTimeout(this.#deadline);
    this.#pc?.close();
    this.video.srcObject = null;
    this.#end("");
    if (!this.#location) return;
    await request("DELETE", this.#location, { token: this.#token, keepalive: true }).catch(() => {});
  }

  /** @returns {Promise<Record<string, number | string>>} what the browser counts about the connection. */
  async details() {
    const report = [...(await this.#pc.getStats()).values()];
    const inbound = report.find((entry) => entry.type === "inbound-rtp" && entry.kind === "video") ?? {};
    const codec = report.find((entry) => entry.id === inbound.codecId);
    const emitted = inbound.jitterBufferEmittedCount;
    return {
      codec: codec?.mimeType.split("/")[1] ?? "",
      bytes: inbound.bytesReceived ?? 0,
      lost: inbound.packetsLost ?? 0,
      dropped: inbound.framesDropped ?? 0,
      buffer: emitted ? (1000 * inbound.jitterBufferDelay) / emitted : 0,
    };
  }

  #shown(expectPicture, signal) {
    return new Promise((resolve, reject) => {
      const within = (milliseconds, why) => {
        clearTimeout(this.#deadline);
        this.#deadline = setTimeout(() => reject(new Error(why)), milliseconds);
      };
      const done = () => {
        clearTimeout(this.#deadline);
        resolve();
      };
      signal.addEventListener("abort", () => reject(signal.reason), { once: true });
      this.video.addEventListener("loadeddata", done, { once: true });
      this.#pc.addEventListener("track", ({ track, streams }) => {
        track.addEventListener("unmute", () => within(CONNECT_MS, "WebRTC brought no picture"), { once: true });
        this.#show(track, streams);
      });
      this.#pc.addEventListener("connectionstatechange", () => {
        const state = this.#pc.connectionState;
        if (state === "connected") within(PATIENCE_MS, "WebRTC brought no picture");
        if (state === "connected" && !expectPicture) done();
        if (state === "failed") reject(new Error(BLOCKED));
        this.#watch(state);
      });
      within(CONNECT_MS, BLOCKED);
    });
  }

  #show(track, streams) {
    this.video.srcObject = streams[0] ?? new MediaStream([track]);
    // Muted video may play without a gesture; a browser that still refuses shows the first frame and plays on a click.
    this.video.play().catch(() => this.video.addEventListener("click", () => this.video.play(), { once: true }));
    if ("requestVideoFrameCallback" in this.video) this.#count();
  }

  #count() {
    this.video.requestVideoFrameCallback((_now, metadata) => {
      if (this.#stopped) return;
      const { presentationTime: time, rtpTimestamp: rtp, receiveTime: received, processingDuration } = metadata;
      this.onFrame({ time, rtp, received, decoded: received + 1000 * processingDuration });
      this.#count();
    });
  }

  #watch(state) {
    clearTimeout(this.#interruption);
    if (state === "failed" || state === "closed") this.#end("the connection was lost");
    if (state !== "disconnected") return;
    this.#interruption = setTimeout(() => this.#end("the connection was lost"), INTERRUPTION_MS);
  }

  async #negotiate(place, signal) {
    const pc = this.#pc;
    pc.addEventListener("icecandidate", ({ candidate }) => this.#trickle(candidate?.candidate || "end-of-candidates"));
    await pc.setLocalDescription(await pc.createOffer());
    const response = await request("POST", place.whep, {
      token: this.#token,
      headers: { "Content-Type": "application/sdp" },
      body: pc.localDescription.sdp,
      signal,
    });
    this.#location = new URL(response.headers.get("Location"), place.whep);
    this.#etag = response.headers.get("ETag");
    await pc.setRemoteDescription({ type: "answer", sdp: await response.text() });
    this.#sendCandidatesSoon();
  }

  #trickle(line) {
    this.#candidates.push(line);
    this.#sendCandidatesSoon();
  }

  #sendCandidatesSoon() {
    if (!this.#location || this.#timer || this.#stopped || this.#candidates.length === 0) return;
    this.#timer = setTimeout(() => {
      this.#timer = 0;
      this.#sendCandidates();
    }, CANDIDATE_BATCH_MS);
  }

  /** One fragment (RFC 8840) with the candidates found since the last one. */
  async #sendCandidates() {
    const lines = this.#candidates.splice(0).map((line) => `a=${line}`);
    const { sdp } = this.#pc.localDescription;
    const head = ["ice-ufrag", "ice-pwd"].map((name) => sdp.match(new RegExp(`^a=${name}:.*$`, "m"))[0].trim());
    const media = sdp.match(/^m=.*$/m)[0].trim();
    const mid = sdp.match(/^a=mid:.*$/m)[0].trim();
    const headers = { "Content-Type": "application/trickle-ice-sdpfrag" };
    if (this.#etag) headers["If-Match"] = this.#etag;
    const body = [...head, media, mid, ...lines, ""].join("\r\n");
    // Without the candidates the server still finds this end by the checks that it receives.
    await request("PATCH", this.#location, { token: this.#token, headers, body }).catch(() => {});
    this.#sendCandidatesSoon();
  }
}
