import { MjpegViewer } from "./mjpeg.js";
import { WebrtcViewer } from "./webrtc.js";

/** The place of the picture: a `<video>` for WebRTC, an `<img>` for MJPEG, one of them in sight. */
export class Picture {
  #size;
  #resolution = "";

  /**
   * @param {HTMLVideoElement} video
   * @param {HTMLImageElement} image
   * @param {{width: number, height: number}} size what the demo announces
   */
  constructor(video, image, size) {
    this.#size = size;
    this.video = video;
    this.image = image;
    video.addEventListener("resize", () => this.#resized(video.videoWidth, video.videoHeight));
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
   * @param {"webrtc" | "mjpeg"} transport
   * @param {(frame: {time: number, rtp?: number, identity?: object | null}) => void} onFrame `rtp` or `identity` says which
   *   frame it is
   */
  viewer(transport, onFrame) {
    const byVideo = transport === "webrtc";
    this.video.hidden = !byVideo;
    this.image.hidden = byVideo;
    return byVideo ? new WebrtcViewer(this.video, onFrame) : new MjpegViewer(this.image, onFrame);
  }

  #resized(width, height) {
    if (width) this.#resolution = `${width}×${height}`;
  }
}
