import { MjpegViewer } from "./mjpeg.js";
import { WebcodecsViewer } from "./webcodecs.js";
import { WebrtcViewer } from "./webrtc.js";

/** The place of the picture: `<video>` for WebRTC, `<canvas>` for WebCodecs, `<img>` for MJPEG, one of them in sight. */
export class Picture {
  #size;
  #resolution = "";
  #viewers;

  /**
   * @param {HTMLVideoElement} video
   * @param {HTMLCanvasElement} canvas
   * @param {HTMLImageElement} image
   * @param {{width: number, height: number}} size what the demo announces
   */
  constructor(video, canvas, image, size) {
    this.#size = size;
    this.#viewers = {
      webrtc: { element: video, Viewer: WebrtcViewer },
      webcodecs: { element: canvas, Viewer: WebcodecsViewer },
      mjpeg: { element: image, Viewer: MjpegViewer },
    };
    video.addEventListener("resize", () => this.#resized(video.videoWidth, video.videoHeight));
    canvas.addEventListener("resize", () => this.#resized(canvas.width, canvas.height));
    image.addEventListener("load", () => this.#resized(image.naturalWidth, image.naturalHeight));
    document.documentElement.style.setProperty("--aspect", `${size.width} / ${size.height}`);
  }

  /** Width over height. */
  get aspect() {
    return this.#size.width / this.#size.height;
  }

  /** @returns {string} size of the newest picture, "" before the first */
  get resolution() {
    return this.#resolution;
  }

  /**
   * @param {import("./transports.js").Transport} transport
   * @param {(frame: {time: number, rtp?: number, identity?: object | null}) => void} onFrame `rtp` or `identity` says which
   *   frame it is
   */
  viewer(transport, onFrame) {
    for (const [name, { element }] of Object.entries(this.#viewers)) element.hidden = name !== transport;
    const { element, Viewer } = this.#viewers[transport];
    return new Viewer(element, onFrame);
  }

  #resized(width, height) {
    if (width) this.#resolution = `${width}×${height}`;
  }
}
