import { HttpPeer } from "./peer.js";
import { Deadline, Deferred } from "./timing.js";

const CONNECT_TIMEOUT_MS = 8000;
/** How long the offer waits for ICE candidates. The server finds later ones by the connectivity checks that it receives. */
const GATHERING_TIMEOUT_MS = 400;
const MAX_FRAMERATE = 30;
const CONNECTION_FAILED = "WebRTC could not send the video (UDP blocked?)";

/** Sends one video track to a session over WebRTC, negotiated with WHIP (RFC 9725). */
export class WhipPublisher {
  #peer;
  /** @type {Deferred<boolean>} */
  #started = new Deferred();

  /**
   * @param {RTCIceServer[]} iceServers
   * @param {string} token bearer token of the session
   */
  constructor(iceServers, token) {
    this.#peer = new HttpPeer({ iceServers }, token);
  }

  /** Whether this browser can send video. */
  static get isSupported() {
    return HttpPeer.isSupported;
  }

  /** Name of the connection on the server, null before the answer. */
  get id() {
    return this.#peer.id;
  }

  /** Resolves with the reason when the connection is lost, with "" after {@link stop}. */
  get ended() {
    return this.#peer.ended;
  }

  /**
   * Connects.
   *
   * @param {MediaStreamTrack} track
   * @param {URL} url that takes the offer
   * @param {object} options
   * @param {number} options.maxSide longest side of the encoded video in pixels
   * @param {number} options.maxBitrate bits per second
   * @returns {Promise<boolean>} true when the video is being sent, false when stopped before
   * @throws {Error} with the reason if it cannot be sent
   */
  async start(track, url, { maxSide, maxBitrate }) {
    const { connection } = this.#peer;
    const { width = 0, height = 0 } = track.getSettings();
    const scaleResolutionDownBy = Math.max(1, Math.max(width, height) / maxSide);
    const sendEncodings = [{ maxBitrate, maxFramerate: MAX_FRAMERATE, scaleResolutionDownBy }];
    const { sender } = connection.addTransceiver(track, { direction: "sendonly", sendEncodings });
    connection.addEventListener("connectionstatechange", () => {
      if (connection.connectionState === "connected") this.#started.resolve(true);
    });
    this.ended.then(() => this.#started.reject(new Error(CONNECTION_FAILED)));
    const deadline = new Deadline(this.#started.reject);
    deadline.set(CONNECT_TIMEOUT_MS, CONNECTION_FAILED);
    this.#negotiate(url).catch(this.#started.reject);
    const isStarted = await this.#started.promise.finally(() => deadline.clear());
    if (isStarted) await setDegradationPreference(sender, track);
    return isStarted;
  }

  /** Stops sending. */
  async stop() {
    this.#started.resolve(false);
    await this.#peer.close();
  }

  /** @param {URL} url */
  async #negotiate(url) {
    const { connection } = this.#peer;
    await connection.setLocalDescription(await connection.createOffer());
    await gatheringComplete(connection);
    await this.#peer.negotiate(url);
  }
}

/**
 * Resolves when all ICE candidates are gathered, or after the timeout.
 *
 * @param {RTCPeerConnection} connection
 * @returns {Promise<void>}
 */
function gatheringComplete(connection) {
  return new Promise((resolve) => {
    const check = () => {
      if (connection.iceGatheringState === "complete") resolve();
    };
    connection.addEventListener("icegatheringstatechange", check);
    setTimeout(resolve, GATHERING_TIMEOUT_MS);
    check();
  });
}

/**
 * Sets what to reduce at a low bitrate: detail of moving video, frames of still images.
 *
 * @param {RTCRtpSender} sender
 * @param {MediaStreamTrack} track
 */
async function setDegradationPreference(sender, track) {
  const parameters = sender.getParameters();
  parameters.degradationPreference = track.contentHint === "detail" ? "maintain-resolution" : "maintain-framerate";
  await sender.setParameters(parameters).catch(() => {}); // some browsers do not support the preference
}
