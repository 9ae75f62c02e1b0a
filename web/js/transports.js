import { WebcodecsViewer } from "./webcodecs.js";
import { WebrtcViewer } from "./webrtc.js";

/** The ways in which a picture comes, best first, and what people call them. */
export const LABELS = { webrtc: "WebRTC", webcodecs: "WebCodecs", mjpeg: "MJPEG" };

/** @typedef {keyof typeof LABELS} Transport */

export const TRANSPORTS = Object.keys(LABELS);

/**
 * @param {Transport} transport
 * @returns {string | null} why this browser cannot use it, or null
 */
export function obstacleTo(transport) {
  if (transport === "webrtc") return WebrtcViewer.isSupported ? null : "This browser has no WebRTC";
  return transport === "webcodecs" ? WebcodecsViewer.obstacle : null;
}
