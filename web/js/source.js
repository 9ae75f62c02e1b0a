/** Sources of the user's own video: the camera, a video file, an image file. */

import { messageOf } from "./api.js";
import { create } from "./dom.js";

const FPS = 30;
/** Interval at which a still image is repeated, since a viewer that joins later needs a frame too. */
const STILL_INTERVAL_MS = 200;

/**
 * @typedef {object} Source
 * @property {MediaStreamTrack} track
 * @property {boolean} isCamera
 * @property {string} text what is being sent, for the user
 * @property {() => void} stop
 */

/** @type {Record<string, string>} */
const CAMERA_ERRORS = {
  NotAllowedError: "Camera access was denied. Allow it in the browser’s address bar, then try again.",
  NotFoundError: "This device has no camera.",
  OverconstrainedError: "This device has no camera.",
  NotReadableError: "The camera is in use by another program.",
  AbortError: "The camera could not be started.",
};

/**
 * Opens the camera.
 *
 * @param {number} maxSide longest side of the video in pixels
 * @returns {Promise<Source>}
 * @throws {Error} with a message for the user
 */
export async function openCamera(maxSide) {
  if (!navigator.mediaDevices?.getUserMedia) {
    throw new Error("Browsers allow camera access on HTTPS or localhost only. Open this page there.");
  }
  const video = {
    width: { ideal: maxSide },
    height: { ideal: Math.round((maxSide * 9) / 16) },
    frameRate: { ideal: FPS, max: FPS },
    facingMode: "user",
  };
  let stream;
  try {
    stream = await navigator.mediaDevices.getUserMedia({ video, audio: false });
  } catch (error) {
    const name = error instanceof Error ? error.name : "";
    throw new Error(CAMERA_ERRORS[name] ?? `The camera could not be used: ${messageOf(error)}`);
  }
  const [track] = stream.getVideoTracks();
  track.contentHint = "motion";
  return { track, isCamera: true, text: "Sending your camera", stop: () => track.stop() };
}

/**
 * Opens a file: a video is played in a loop, an image is shown.
 *
 * @param {File} file
 * @param {number} maxSide longest side of the video in pixels
 * @returns {Promise<Source>}
 * @throws {Error} with a message for the user
 */
export async function openFile(file, maxSide) {
  const url = URL.createObjectURL(file);
  try {
    return file.type.startsWith("image/") ? await openImage(url, maxSide) : await openVideo(url, maxSide);
  } catch {
    URL.revokeObjectURL(url);
    throw new Error(`This browser cannot open ${file.name}.`);
  }
}

/**
 * @param {string} url
 * @param {number} maxSide
 * @returns {Promise<Source>}
 */
async function openVideo(url, maxSide) {
  const video = create("video", { src: url, muted: true, loop: true, playsInline: true });
  await video.play();
  const captured = captureTrack(video);
  const canvas = captured ? null : createCanvasTrack(video, video.videoWidth, video.videoHeight, maxSide);
  const track = captured ?? /** @type {MediaStreamTrack} */ (canvas?.track);
  const timer = canvas ? setInterval(canvas.draw, 1000 / FPS) : undefined;
  track.contentHint = "motion";
  const stop = () => {
    clearInterval(timer);
    track.stop();
    video.removeAttribute("src");
    video.load();
    URL.revokeObjectURL(url);
  };
  return { track, isCamera: false, text: "Sending the video file", stop };
}

/**
 * Returns the video track of a media element.
 *
 * @param {HTMLVideoElement & { captureStream?: () => MediaStream, mozCaptureStream?: () => MediaStream }} video
 * @returns {MediaStreamTrack | null} null if the browser cannot capture media elements
 */
function captureTrack(video) {
  const stream = video.captureStream?.() ?? video.mozCaptureStream?.();
  return stream?.getVideoTracks()[0] ?? null;
}

/**
 * @param {string} url
 * @param {number} maxSide
 * @returns {Promise<Source>}
 */
async function openImage(url, maxSide) {
  const image = create("img", { src: url });
  await image.decode();
  const { track, draw } = createCanvasTrack(image, image.naturalWidth, image.naturalHeight, maxSide);
  const timer = setInterval(draw, STILL_INTERVAL_MS);
  track.contentHint = "detail";
  const stop = () => {
    clearInterval(timer);
    track.stop();
    URL.revokeObjectURL(url);
  };
  return { track, isCamera: false, text: "Sending the image file", stop };
}

/**
 * Returns the track of a canvas, and a function that draws the image on it.
 *
 * @param {CanvasImageSource} image
 * @param {number} imageWidth
 * @param {number} imageHeight
 * @param {number} maxSide
 */
function createCanvasTrack(image, imageWidth, imageHeight, maxSide) {
  const { width, height } = fitSize(imageWidth, imageHeight, maxSide);
  const canvas = create("canvas", { width, height });
  const context = canvas.getContext("2d");
  const draw = () => context?.drawImage(image, 0, 0, width, height);
  draw();
  return { track: canvas.captureStream(FPS).getVideoTracks()[0], draw };
}

/**
 * Returns a size of the same aspect ratio whose sides are even, as 4:2:0 video requires, and not longer than `maxSide`.
 *
 * @param {number} width
 * @param {number} height
 * @param {number} maxSide
 */
export function fitSize(width, height, maxSide) {
  const scale = Math.min(1, maxSide / Math.max(width, height));
  const even = (/** @type {number} */ side) => Math.max(2, 2 * Math.round((side * scale) / 2));
  return { width: even(width), height: even(height) };
}
