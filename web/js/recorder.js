import { Problem } from "./api.js";
import { byId, create } from "./dom.js";

/** @import { Recording, RecordingFile, SessionGrant } from "./api.js" */

const POLL_INTERVAL_MS = 1000;

/** @type {Record<string, string>} */
const STOP_REASONS = {
  full: "The recording has reached its maximum size.",
  failed: "The recording has stopped: the server could not write the file.",
};

/** The button that records the session, and the links to the files. */
export class Recorder {
  #session;
  #notify;
  #button = byId("record", HTMLButtonElement);
  /** @type {SessionGrant | null} The session that is being recorded. */
  #grant = null;
  /** @type {ReturnType<typeof setInterval> | undefined} */
  #timer;

  /**
   * @param {import("./session.js").Session} session
   * @param {(text: string) => void} notify shows a message to the user
   */
  constructor(session, notify) {
    this.#session = session;
    this.#notify = notify;
  }

  /** Shows the button, and starts to listen. */
  listen() {
    this.#button.hidden = false;
    this.#session.on("state", () => this.#onSessionState());
  }

  /** Starts or stops a recording. */
  async toggle() {
    if (this.#grant) this.#finish(this.#grant, await this.#grant.stopRecording());
    else if (this.#session.grant) await this.#start(this.#session.grant);
  }

  /** @param {SessionGrant} grant */
  async #start(grant) {
    this.#show(await grant.startRecording());
    byId("recording").hidden = true;
    this.#grant = grant;
    this.#timer = setInterval(() => this.#poll(grant), POLL_INTERVAL_MS);
  }

  /**
   * Checks whether the server has stopped the recording.
   *
   * @param {SessionGrant} grant
   */
  async #poll(grant) {
    const recording = await grant.recording().catch(stoppedIfGone);
    if (!recording || grant !== this.#grant) return;
    if (recording.state === "recording") this.#show(recording);
    else this.#finish(grant, recording);
  }

  /**
   * @param {SessionGrant} grant
   * @param {Recording} recording
   */
  #finish(grant, recording) {
    clearInterval(this.#timer);
    this.#grant = null;
    this.#show(recording);
    if (recording.reason && recording.reason in STOP_REASONS) this.#notify(STOP_REASONS[recording.reason]);
    const files = newestFiles(recording.files);
    byId("recording-links").replaceChildren(...files.map((file) => createLink(grant, file)));
    byId("recording").hidden = !files.length;
  }

  /** A recording ends with its session; its files stay available. */
  #onSessionState() {
    this.#button.disabled = !this.#session.grant;
    if (this.#grant && this.#grant !== this.#session.grant) this.#poll(this.#grant);
  }

  /** @param {Recording} recording */
  #show({ state, seconds }) {
    const isRecording = state === "recording";
    this.#button.setAttribute("aria-pressed", String(isRecording));
    this.#button.textContent = isRecording ? `Stop ${formatDuration(seconds)}` : "Record";
    this.#button.title = isRecording ? "Stop recording" : "Record this session as MP4 on the server";
  }
}

/**
 * @param {unknown} error
 * @returns {Recording | null} null for a temporary error
 */
function stoppedIfGone(error) {
  if (!(error instanceof Problem) || !error.isGone) return null;
  return { state: "stopped", reason: null, seconds: 0, files: [] };
}

/**
 * Returns the files of the newest recording: several if the size of the video has changed.
 *
 * @param {RecordingFile[]} files such as "recording-1.mp4", "recording-1-2.mp4", oldest first
 * @returns {RecordingFile[]}
 */
export function newestFiles(files) {
  const numberOf = (/** @type {RecordingFile | undefined} */ file) => file?.name.match(/\d+/)?.[0];
  return files.filter((file) => numberOf(file) === numberOf(files.at(-1)));
}

/**
 * @param {SessionGrant} grant
 * @param {RecordingFile} file
 */
function createLink(grant, { name, bytes, href }) {
  return create("a", { href: grant.fileUrl(href), download: name, textContent: `${name} (${formatSize(bytes)})` });
}

/**
 * @param {number} seconds
 * @returns {string} such as "1:04"
 */
export function formatDuration(seconds) {
  const whole = Math.floor(seconds);
  return `${Math.floor(whole / 60)}:${String(whole % 60).padStart(2, "0")}`;
}

/**
 * @param {number} bytes
 * @returns {string} such as "2.3 MB"
 */
export function formatSize(bytes) {
  return bytes < 1e6 ? `${Math.max(1, Math.round(bytes / 1e3))} kB` : `${(bytes / 1e6).toFixed(1)} MB`;
}
