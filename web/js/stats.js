import { LABELS } from "./transports.js";

/** Frames are counted over this time. */
const WINDOW_MS = 2000;

/** The numbers below the picture, and the fuller table over it. */
export class Stats {
  #times = [];
  #roundTrip = null;
  #lastBytes = null;

  /**
   * @param {HTMLElement} line one `data-stat` element for each number
   * @param {HTMLElement} table filled with the details while it is shown
   * @param {import("./latency.js").KeyToPixel} latency
   * @param {() => string} resolution
   */
  constructor(line, table, latency, resolution) {
    this.line = line;
    this.table = table;
    this.latency = latency;
    this.resolution = resolution;
  }

  /** A frame was presented at `time`, in milliseconds of `performance.now()`. */
  frame(time) {
    this.#times.push(time);
  }

  /** A ping came back after so long. */
  roundTrip(milliseconds) {
    this.#roundTrip = milliseconds;
  }

  /** Forgets the frames of a connection that is over. */
  clear() {
    this.#times = [];
    this.#lastBytes = null;
  }

  /**
   * Writes the numbers as they are now.
   *
   * @param {import("./session.js").Session} session
   */
  async update(session) {
    this.line.hidden = !session.viewer;
    this.#write("fps", format(this.#fps(), "fps"));
    this.#write("latency", format(this.latency.median, "ms"));
    this.#write("transport", LABELS[session.transport] ?? "–");
    this.#write("resolution", this.resolution() || "–");
    if (!this.table.hidden && session.viewer) this.#fill(await session.viewer.details());
  }

  #fps() {
    const now = performance.now();
    this.#times = this.#times.filter((time) => now - time <= WINDOW_MS);
    return this.#times.length > 1 ? (1000 * (this.#times.length - 1)) / (now - this.#times[0]) : null;
  }

  #write(name, text) {
    this.line.querySelector(`[data-stat="${name}"]`).textContent = text;
  }

  #fill(details) {
    const rows = [
      ["Key to pixel, median", format(this.latency.median, "ms")],
      ["Key to pixel, p95", format(this.latency.p95, "ms")],
      ["Round trip of controls", format(this.#roundTrip, "ms")],
      ["Codec", details.codec || "–"],
      ["Received", format(this.#rate(details.bytes), "kbit/s")],
      ["Frames dropped", String(details.dropped ?? "–")],
    ];
    if ("buffer" in details) rows.push(["Jitter buffer, mean", format(details.buffer, "ms")]);
    if ("lost" in details) rows.push(["Packets lost", String(details.lost)]);
    this.table.replaceChildren(...rows.flatMap(([name, value]) => [part("dt", name), part("dd", value)]));
  }

  #rate(bytes) {
    const now = performance.now();
    const last = this.#lastBytes;
    this.#lastBytes = { bytes, now };
    return last && bytes !== null ? (8 * (bytes - last.bytes)) / (now - last.now) : null;
  }
}

function format(value, unit) {
  return value === null ? "–" : `${Math.round(value)} ${unit}`;
}

function part(tag, text) {
  const element = document.createElement(tag);
  element.textContent = text;
  return element;
}
