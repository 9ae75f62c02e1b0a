import { WebcodecsViewer } from "./webcodecs.js";
import { WebrtcViewer } from "./webrtc.js";

/** @typedef {"webrtc" | "webcodecs" | "mjpeg"} Transport */

/**
 * All transports of the video, in order of preference.
 *
 * @type {readonly Transport[]}
 */
export const TRANSPORTS = ["webrtc", "webcodecs", "mjpeg"];

/**
 * Names shown to the user.
 *
 * @type {Readonly<Record<Transport, string>>}
 */
export const TRANSPORT_LABELS = { webrtc: "WebRTC", webcodecs: "WebCodecs", mjpeg: "MJPEG" };

/**
 * Returns why this browser cannot use a transport.
 *
 * @param {Transport} transport
 * @returns {string | null} null if it can
 */
export function unsupportedReason(transport) {
  if (transport === "webrtc") return WebrtcViewer.unsupportedReason;
  if (transport === "webcodecs") return WebcodecsViewer.unsupportedReason;
  return null;
}

/**
 * Returns the transport with the given name.
 *
 * @param {string | null} name
 * @returns {Transport | null} null if there is none
 */
export function transportNamed(name) {
  return TRANSPORTS.find((transport) => transport === name) ?? null;
}
