import { HttpPeer } from "./peer.js";
import { Deadline, Deferred } from "./timing.js";

/** Timeout of the connection, and of the first frame after the first packet. */
const CONNECT_TIMEOUT_MS = 4000;
/** Timeout of the first packet of an open connection: the model may still be warming up. */
const FIRST_PACKET_TIMEOUT_MS = 30_000;
const CANDIDATE_BATCH_MS = 50;
const CONNECTION_FAILED = "WebRTC could not connect (UDP blocked?)";
const NO_FRAME = "No video received over WebRTC";

/**
 * Receives the video of a session over WebRTC, negotiated with WHEP (draft-ietf-wish-whep). The offer is sent at once, the
 * ICE candidates follow.
 *
 * Implements {@link import("./display.js").Viewer}.
 */
export class WebrtcViewer {
  #video;
  #onFrame;
  /** @type {HttpPeer | null} */
  #peer = null;
  /** @type {string[]} */
  #candidates = [];
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  #timer;
  #isStopped = false;
  /** @type {Deferred<boolean>} */
  #started = new Deferred();
  /** @type {Deferred<string>} */
  #ended = new Deferred();

  ended = this.#ended.promise;

  /** Why this browser cannot use it, or null. */
  static get unsupportedReason() {
    return HttpPeer.isSupported ? null : "This browser does not support WebRTC";
  }

  /**
   * @param {HTMLVideoElement} video
   * @param {import("./display.js").OnFrame} onFrame
   */
  constructor(video, onFrame) {
    this.#video = video;
    this.#onFrame = onFrame;
  }

  get id() {
    return this.#peer?.id ?? null;
  }

  /**
   * @param {import("./api.js").SessionGrant} grant
   * @param {import("./display.js").ViewerOptions} options
   */
  async start(grant, { iceServers, iceTransportPolicy, channel, expectFrame }) {
    const peer = new HttpPeer({ iceServers, iceTransportPolicy, bundlePolicy: "max-bundle" }, grant.token);
    this.#peer = peer;
    peer.ended.then((reason) => this.#ended.resolve(reason));
    const { connection } = peer;
    const { receiver } = connection.addTransceiver("video", { direction: "recvonly" });
    if ("jitterBufferTarget" in receiver) receiver.jitterBufferTarget = 0;
    const data = connection.createDataChannel("controls", { ordered: true });
    channel.adopt(data);
    data.addEventListener("close", () => peer.end("the connection was closed"));
    const deadline = new Deadline(this.#started.reject);
    this.#watch(connection, expectFrame, deadline);
    this.#negotiate(peer, grant.whep).catch(this.#started.reject);
    return this.#started.promise.finally(() => deadline.clear());
  }

  async stop() {
    this.#isStopped = true;
    this.#started.resolve(false);
    this.#ended.resolve("");
    clearTimeout(this.#timer);
    this.#video.srcObject = null;
    await this.#peer?.close();
  }

  async statistics() {
    const report = await this.#peer?.connection.getStats();
    const entries = report ? [...report.values()] : [];
    const inbound = entries.find((entry) => entry.type === "inbound-rtp" && entry.kind === "video") ?? {};
    const codec = entries.find((entry) => entry.id === inbound.codecId);
    const emitted = inbound.jitterBufferEmittedCount;
    return {
      codec: codec?.mimeType.split("/")[1] ?? null,
      bytes: inbound.bytesReceived ?? 0,
      lost: inbound.packetsLost ?? 0,
      dropped: inbound.framesDropped ?? 0,
      jitterBuffer: emitted ? (1000 * inbound.jitterBufferDelay) / emitted : 0,
    };
  }

  /**
   * Settles the start as the connection proceeds: connected, first packet, first frame.
   *
   * @param {RTCPeerConnection} connection
   * @param {boolean} expectFrame
   * @param {Deadline} deadline
   */
  #watch(connection, expectFrame, deadline) {
    deadline.set(CONNECT_TIMEOUT_MS, CONNECTION_FAILED);
    this.#video.addEventListener("loadeddata", () => this.#started.resolve(true), { once: true });
    connection.addEventListener("track", ({ track, streams }) => {
      track.addEventListener("unmute", () => deadline.set(CONNECT_TIMEOUT_MS, NO_FRAME), { once: true });
      this.#show(track, streams);
    });
    connection.addEventListener("connectionstatechange", () => {
      if (connection.connectionState === "failed") this.#started.reject(new Error(CONNECTION_FAILED));
      if (connection.connectionState !== "connected") return;
      if (expectFrame) deadline.set(FIRST_PACKET_TIMEOUT_MS, NO_FRAME);
      else this.#started.resolve(true);
    });
  }

  /**
   * @param {MediaStreamTrack} track
   * @param {readonly MediaStream[]} streams
   */
  #show(track, streams) {
    this.#video.srcObject = streams[0] ?? new MediaStream([track]);
    // Muted video may play without a user gesture. A browser that refuses shows the first frame and plays after a click.
    this.#video.play().catch(() => this.#video.addEventListener("click", () => this.#video.play(), { once: true }));
    if ("requestVideoFrameCallback" in this.#video) this.#reportFrames();
  }

  #reportFrames() {
    this.#video.requestVideoFrameCallback((_now, metadata) => {
      if (this.#isStopped) return;
      const { presentationTime: time, rtpTimestamp: rtp, receiveTime: received, processingDuration } = metadata;
      const decoded =
        received === undefined || processingDuration === undefined ? undefined : received + 1000 * processingDuration;
      this.#onFrame({ time, rtp, received, decoded });
      this.#reportFrames();
    });
  }

  /**
   * @param {HttpPeer} peer
   * @param {URL} url
   */
  async #negotiate(peer, url) {
    const { connection } = peer;
    connection.addEventListener("icecandidate", ({ candidate }) => {
      this.#candidates.push(candidate?.candidate || "end-of-candidates");
      this.#scheduleCandidates();
    });
    await connection.setLocalDescription(await connection.createOffer());
    await peer.negotiate(url);
    this.#scheduleCandidates();
  }

  /** Sends the candidates in batches, once the server has answered the offer. */
  #scheduleCandidates() {
    if (this.id === null || this.#timer !== undefined || this.#isStopped || this.#candidates.length === 0) return;
    this.#timer = setTimeout(() => this.#sendCandidates(), CANDIDATE_BATCH_MS);
  }

  async #sendCandidates() {
    const sdp = this.#peer?.connection.localDescription?.sdp ?? "";
    await this.#peer?.sendCandidates(candidateFragment(sdp, this.#candidates.splice(0)));
    this.#timer = undefined;
    this.#scheduleCandidates();
  }
}

/**
 * Returns the SDP fragment (RFC 8840) that adds candidates to the first media section of a description.
 *
 * @param {string} sdp local description
 * @param {string[]} candidates such as "candidate:1 1 udp ...", or "end-of-candidates"
 * @returns {string}
 */
export function candidateFragment(sdp, candidates) {
  const head = [/^a=ice-ufrag:.*$/m, /^a=ice-pwd:.*$/m, /^m=.*$/m, /^a=mid:.*$/m].map((pattern) => {
    return sdp.match(pattern)?.[0].trim() ?? "";
  });
  return [...head, ...candidates.map((candidate) => `a=${candidate}`), ""].join("\r\n");
}
