import { LABELS } from "./transports.js";

/** Frames are counted over this time. */
const WINDOW_MS = 2000;

/** Names of the stages that are shown, in the order of the way. */
const STAGES = {
  uplink: "Key to server",
  input_wait: "Wait for a step",
  step: "Step of the model",
  emit: "Hand-over",
  pace: "Pacing",
  encode: "Encoding",
  send: "Sending",
  network: "Network",
  decode: "Decoding",
  present: "Wait for the screen",
  step_to_pixel: "Step to pixel",
  key_to_pixel: "Key to pixel",
};

/** The numbers below the picture, and the fuller table over it. */
export class Stats {
  #times = [];
  #roundTrip = null;
  #lastBytes = null;
  #stages = [];

  /**
   * @param {HTMLElement} line one `data-stat` element for each number
   * @param {HTMLElement} details with a `dl` and the `tbody` of a table, filled while it is shown
   * @param {import("./latency.js").KeyToPixel} latency
   * @param {() => string} resolution
   */
  constructor(line, details, latency, resolution) {
    this.line = line;
    this.details = details;
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

  /** @param {{stage: string, p50: number, p95: number}[]} stages what the server has found, in milliseconds */
  timing(stages) {
    this.#stages = stages;
  }

  /** Forgets the frames of a connection that is over. */
  clear() {
    this.#times = [];
    this.#lastBytes = null;
    this.#stages = [];
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
    if (!this.details.hidden && session.viewer) this.#fill(await session.viewer.details());
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
    const { median, p95 } = this.latency;
    const keyToPixel = [
      ["Key to pixel, median", format(median, "ms")],
      ["Key to pixel, p95", format(p95, "ms")],
    ];
    const rows = [
      ...(median === null ? [] : keyToPixel),
      ["Round trip of controls", format(this.#roundTrip, "ms")],
      ["Codec", details.codec || "–"],
      ["Received", format(this.#rate(details.bytes), "kbit/s")],
      ["Frames dropped", String(details.dropped ?? "–")],
    ];
    if ("buffer" in details) rows.push(["Jitter buffer, mean", format(details.buffer, "ms")]);
    if ("lost" in details) rows.push(["Packets lost", String(details.lost)]);
    const list = this.details.querySelector("dl");
    list.replaceChildren(...rows.flatMap(([name, value]) => [part("dt", name), part("dd", value)]));
    this.#fillStages();
  }

  #fillStages() {
    const shown = this.#stages.filter(({ stage }) => stage in STAGES);
    const rows = shown.map(({ stage, p50, p95 }) => {
      const row = document.createElement("tr");
      row.dataset.stage = stage;
      row.append(part("th", STAGES[stage]), part("td", p50.toFixed(1)), part("td", p95.toFixed(1)));
      row.firstChild.scope = "row";
      return row;
    });
    this.details.querySelector("table").hidden = !rows.length;
    this.details.querySelector("tbody").replaceChildren(...rows);
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
