/** Where a person's own video comes from: the camera, a film, a picture. */

const FPS = 30;
const STILL_MS = 200;

/**
 * @typedef {object} Source
 * @property {MediaStreamTrack} track
 * @property {boolean} isCamera
 * @property {string} text what is being sent, for the person
 * @property {() => void} stop
 */

/**
 * Asks for the camera.
 *
 * @param {number} maxSide pixels that the demo takes along the longer side
 * @returns {Promise<Source>} rejects with an Error whose message is for the person
 */
export async function openCamera(maxSide) {
  if (!navigator.mediaDevices?.getUserMedia) {
    throw new Error("A browser gives the camera only to pages on HTTPS or on localhost: open this page there.");
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
    throw new Error(inPlainWords(error));
  }
  const [track] = stream.getVideoTracks();
  track.contentHint = "motion";
  return { track, isCamera: true, text: "Your camera is on.", stop: () => track.stop() };
}

function inPlainWords(error) {
  const sentences = {
    NotAllowedError: "The camera was not allowed. Allow it in the browser’s address bar, then try again.",
    NotFoundError: "No camera was found on this device.",
    OverconstrainedError: "No camera was found on this device.",
    NotReadableError: "The camera is in use by another program.",
    AbortError: "The camera did not start.",
  };
  return sentences[error.name] ?? `The camera could not be used: ${error.message}`;
}

/**
 * Plays a film over and over, or shows a picture.
 *
 * @param {File} file
 * @param {number} maxSide
 * @returns {Promise<Source>} rejects with an Error whose message is for the person
 */
export async function openFile(file, maxSide) {
  const url = URL.createObjectURL(file);
  try {
    return file.type.startsWith("image/") ? await showPicture(url, maxSide) : await playFilm(url, maxSide);
  } catch {
    URL.revokeObjectURL(url);
    throw new Error(`This browser cannot show ${file.name}.`);
  }
}

async function playFilm(url, maxSide) {
  const film = Object.assign(document.createElement("video"), { src: url, muted: true, loop: true, playsInline: true });
  await film.play();
  const paint = painter(film, film.videoWidth, film.videoHeight, maxSide);
  const own = film.captureStream?.() ?? film.mozCaptureStream?.();
  const track = own?.getVideoTracks()[0] ?? paint.track;
  const timer = own ? 0 : setInterval(paint.draw, 1000 / FPS);
  track.contentHint = "motion";
  const stop = () => {
    clearInterval(timer);
    track.stop();
    film.removeAttribute("src");
    film.load();
    URL.revokeObjectURL(url);
  };
  return { track, isCamera: false, text: "Your film is playing.", stop };
}

async function showPicture(url, maxSide) {
  const picture = Object.assign(new Image(), { src: url });
  await picture.decode();
  const { track, draw } = painter(picture, picture.naturalWidth, picture.naturalHeight, maxSide);
  const timer = setInterval(draw, STILL_MS); // again and again: who comes later needs frames too
  track.contentHint = "detail";
  const stop = () => {
    clearInterval(timer);
    track.stop();
    URL.revokeObjectURL(url);
  };
  return { track, isCamera: false, text: "Your picture is shown.", stop };
}

/** A canvas that `draw` paints an image on, no larger than the demo takes it, and the track of what is on it. */
function painter(image, width, height, maxSide) {
  const scale = Math.min(1, maxSide / Math.max(width, height));
  const [w, h] = [width, height].map((side) => Math.max(2, 2 * Math.round((side * scale) / 2)));
  const canvas = Object.assign(document.createElement("canvas"), { width: w, height: h });
  const context = canvas.getContext("2d");
  const draw = () => context.drawImage(image, 0, 0, w, h);
  draw();
  return { track: canvas.captureStream(FPS).getVideoTracks()[0], draw };
}
