import { MjpegViewer } from "./mjpeg.js";
import { WebcodecsViewer } from "./webcodecs.js";
import { WebrtcViewer } from "./webrtc.js";

/**
 * @typedef {object} ShownFrame
 * @property {number} time of its presentation, milliseconds of `performance.now()`, as all times
 * @property {number} [rtp] RTP timestamp, by which its identity is found
 * @property {import("./frames.js").FrameIdentity | null} [identity] where the transport carries it
 * @property {number} [received]
 * @property {number} [decoded]
 *
 * @typedef {(frame: ShownFrame) => void} OnFrame
 *
 * @typedef {object} ViewerOptions
 * @property {RTCIceServer[]} iceServers
 * @property {RTCIceTransportPolicy} [iceTransportPolicy]
 * @property {import("./channel.js").ControlChannel} channel adopts the data channel
 * @property {boolean} expectFrame false if the session sends no frames now: an open connection is enough
 *
 * @typedef {object} ViewerStatistics null where it cannot be measured
 * @property {string | null} codec
 * @property {number | null} bytes received
 * @property {number | null} dropped frames
 * @property {number} [lost] packets
 * @property {number} [jitterBuffer] mean delay in milliseconds
 *
 * @typedef {object} Viewer shows a session over one transport
 * @property {string | null} id name of the connection on the server, null if it has none
 * @property {Promise<string>} ended resolves with the reason when the connection is lost, with "" after `stop()`
 * @property {(grant: import("./api.js").SessionGrant, options: ViewerOptions) => Promise<boolean>} start resolves with true
 *   when the first frame is shown, with false after `stop()`; rejects with the reason if there is no frame
 * @property {() => Promise<void>} stop the last frame stays visible
 * @property {() => Promise<ViewerStatistics>} statistics
 */

/**
 * @typedef {object} DisplayElements
 * @property {HTMLVideoElement} video
 * @property {HTMLCanvasElement} canvas
 * @property {HTMLImageElement} image
 * @property {HTMLElement} frame gets the CSS variable `--aspect` with the ratio of width to height
 */

/** Shows the video: `<video>` for WebRTC, `<canvas>` for WebCodecs, `<img>` for MJPEG; one of them is visible. */
export class VideoDisplay {
  #video;
  #canvas;
  #image;
  #frame;
  #pixelAspect;
  #resolution = "";
  /** @type {number | null} */
  #aspect = null;

  /**
   * @param {import("./api.js").VideoSize} size of the demo's frames
   * @param {DisplayElements} elements
   */
  constructor({ width, height, pixel_aspect: pixelAspect, scaling }, { video, canvas, image, frame }) {
    this.#pixelAspect = pixelAspect;
    this.#video = video;
    this.#canvas = canvas;
    this.#image = image;
    this.#frame = frame;
    video.parentElement?.classList.toggle("sharp", scaling === "sharp");
    video.addEventListener("resize", () => this.#onResize(video.videoWidth, video.videoHeight));
    canvas.addEventListener("resize", () => this.#onResize(canvas.width, canvas.height));
    image.addEventListener("load", () => this.#onResize(image.naturalWidth, image.naturalHeight));
    if (width && height) this.#setAspect(width, height);
  }

  /** Width of the video over its height, null before the first frame of a demo that declares no size. */
  get aspect() {
    return this.#aspect;
  }

  /** Size of the newest frame, "" before the first. */
  get resolution() {
    return this.#resolution;
  }

  /**
   * Creates a viewer, and makes its element the visible one.
   *
   * @param {import("./transports.js").Transport} transport
   * @param {OnFrame} onFrame called for each frame shown
   * @returns {Viewer}
   */
  createViewer(transport, onFrame) {
    this.#video.hidden = transport !== "webrtc";
    this.#canvas.hidden = transport !== "webcodecs";
    this.#image.hidden = transport !== "mjpeg";
    if (transport === "webrtc") return new WebrtcViewer(this.#video, onFrame);
    if (transport === "webcodecs") return new WebcodecsViewer(this.#canvas, onFrame);
    return new MjpegViewer(this.#image, onFrame);
  }

  /**
   * @param {number} width
   * @param {number} height
   */
  #onResize(width, height) {
    if (!width || !height) return;
    this.#resolution = `${width}×${height}`;
    this.#setAspect(width, height);
  }

  /**
   * @param {number} width
   * @param {number} height
   */
  #setAspect(width, height) {
    const aspect = (width * this.#pixelAspect) / height;
    if (aspect === this.#aspect) return;
    this.#aspect = aspect;
    this.#frame.style.setProperty("--aspect", `${width * this.#pixelAspect} / ${height}`);
  }
}
