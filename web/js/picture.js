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
   * @param {(frame: {time: number, rtp?: number, actionSeq?: number | null}) => void} onFrame
   */
  viewer(transport, onFrame) {
    const byVideo = transport === "webrtc";
    this.video.hidden = !byVideo;
    this.image.hidden = byVideo;
    const shown = (frame) => {
      const [width, height] = byVideo
        ? [this.video.videoWidth, this.video.videoHeight]
        : [this.image.naturalWidth, this.image.naturalHeight];
      if (width) this.#resolution = `${width}×${height}`;
      onFrame(frame);
    };
    return byVideo ? new WebrtcViewer(this.video, shown) : new MjpegViewer(this.image, shown);
  }
}
