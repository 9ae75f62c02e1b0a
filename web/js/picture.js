import { MjpegViewer } from "./mjpeg.js";
import { WebrtcViewer } from "./webrtc.js";

/** The place of the picture: a `<video>` for WebRTC, an `<img>` for MJPEG, one of them in sight. */
export class Picture {
  #stage;
  #size;

  /**
   * @param {HTMLElement} stage
   * @param {HTMLVideoElement} video
   * @param {HTMLImageElement} image
   * @param {{width: number, height: number}} size what the demo announces
   */
  constructor(stage, video, image, size) {
    this.#stage = stage;
    this.#size = size;
    this.video = video;
    this.image = image;
    stage.style.setProperty("--aspect", `${size.width} / ${size.height}`);
  }

  get aspect() {
    return this.#size.width / this.#size.height;
  }

  /** @returns {string} size of the picture that is shown, or "" */
  get resolution() {
    const { videoWidth, videoHeight } = this.video;
    const { naturalWidth, naturalHeight } = this.image;
    const [width, height] = this.video.hidden ? [naturalWidth, naturalHeight] : [videoWidth, videoHeight];
    return width ? `${width}×${height}` : "";
  }

  /**
   * @param {"webrtc" | "mjpeg"} transport
   * @param {(frame: {time: number, rtp?: number, actionSeq?: number | null}) => void} onFrame
   */
  viewer(transport, onFrame) {
    const byVideo = transport === "webrtc";
    this.video.hidden = !byVideo;
    this.image.hidden = byVideo;
    return byVideo ? new WebrtcViewer(this.video, onFrame) : new MjpegViewer(this.image, onFrame);
  }
}
