import { byId, create, query } from "./dom.js";
import { titleOf } from "./schema.js";
import { TRANSPORT_LABELS } from "./transports.js";

/** @import { StageStatistics, StageTiming } from "./protocol.js" */

/** Frames are counted over this time. */
const WINDOW_MS = 2000;
const UNKNOWN = "–";

/**
 * The stages of a frame that are listed, in order (docs/latency.md).
 *
 * @type {Record<string, string>}
 */
const STAGE_LABELS = {
  uplink: "Key press to server",
  input_wait: "Wait for step",
  step: "Model step",
  emit: "Output",
  pace: "Pacing",
  encode: "Encoding",
  send: "Sending",
  network: "Network",
  decode: "Decoding",
  present: "Wait for display",
  step_to_pixel: "Step to pixel",
  key_to_pixel: "Key to pixel",
};

/** The statistics: a line below the video, and a panel with more of them. */
export class Stats {
  #line = byId("stats");
  #panel = byId("details");
  #latency;
  #resolution;
  /** @type {number[]} */
  #times = [];
  /** @type {number | null} */
  #roundTrip = null;
  /** @type {{ bytes: number, time: number } | null} */
  #lastBytes = null;
  /** @type {StageTiming[]} */
  #timing = [];
  /** @type {StageStatistics[]} */
  #pipeline = [];

  /**
   * @param {import("./latency.js").KeyToPixel} latency
   * @param {() => string} resolution
   */
  constructor(latency, resolution) {
    this.#latency = latency;
    this.#resolution = resolution;
  }

  /**
   * Adds a presented frame.
   *
   * @param {number} time milliseconds of `performance.now()`
   */
  addFrame(time) {
    this.#times.push(time);
  }

  /**
   * Sets the round-trip time of the controls connection.
   *
   * @param {number} milliseconds
   */
  setRoundTrip(milliseconds) {
    this.#roundTrip = milliseconds;
  }

  /**
   * Sets the statistics of the server.
   *
   * @param {StageTiming[]} timing of the stages from a key press to the screen
   * @param {StageStatistics[]} [pipeline] of the stages of the model
   */
  setTiming(timing, pipeline = []) {
    this.#timing = timing;
    this.#pipeline = pipeline;
  }

  /** Drops what belongs to a connection that has ended. */
  clear() {
    this.#times = [];
    this.#lastBytes = null;
    this.setTiming([]);
  }

  /**
   * Shows the current values.
   *
   * @param {Pick<import("./session.js").Session, "viewer" | "transport">} session
   */
  async update({ viewer, transport }) {
    this.#line.hidden = !viewer;
    this.#show("fps", format(this.#fps(), "fps"));
    this.#show("latency", format(this.#latency.median, "ms"));
    this.#show("transport", transport ? TRANSPORT_LABELS[transport] : UNKNOWN);
    this.#show("resolution", this.#resolution() || UNKNOWN);
    if (!this.#panel.hidden && viewer) this.#showPanel(await viewer.statistics());
  }

  #fps() {
    const now = performance.now();
    this.#times = this.#times.filter((time) => now - time <= WINDOW_MS);
    return this.#times.length > 1 ? (1000 * (this.#times.length - 1)) / (now - this.#times[0]) : null;
  }

  /**
   * @param {string} name
   * @param {string} text
   */
  #show(name, text) {
    query(this.#line, `[data-stat="${name}"]`).textContent = text;
  }

  /** @param {import("./display.js").ViewerStatistics} statistics */
  #showPanel({ codec, bytes, dropped, lost, jitterBuffer }) {
    const { median, p95 } = this.#latency;
    /** @type {[string, string][]} */
    const rows = [];
    if (median !== null) {
      rows.push(["Key to pixel, median", format(median, "ms")], ["Key to pixel, p95", format(p95, "ms")]);
    }
    rows.push(
      ["Controls round trip", format(this.#roundTrip, "ms")],
      ["Codec", codec || UNKNOWN],
      ["Received", format(this.#bitrate(bytes), "kbit/s")],
      ["Frames dropped", String(dropped ?? UNKNOWN)],
    );
    if (jitterBuffer !== undefined) rows.push(["Jitter buffer, mean", format(jitterBuffer, "ms")]);
    if (lost !== undefined) rows.push(["Packets lost", String(lost)]);
    const cells = rows.flatMap(([name, value]) => [
      create("dt", { textContent: name }),
      create("dd", { textContent: value }),
    ]);
    query(this.#panel, "dl").replaceChildren(...cells);
    this.#showTiming();
    this.#showPipeline();
  }

  #showTiming() {
    const rows = this.#timing
      .filter(({ stage }) => stage in STAGE_LABELS)
      .map(({ stage, p50, p95 }) => {
        const row = createRow(STAGE_LABELS[stage], [p50.toFixed(1), p95.toFixed(1)]);
        row.dataset.stage = stage;
        return row;
      });
    const table = byId("timing", HTMLTableElement);
    table.hidden = !rows.length;
    table.tBodies[0].replaceChildren(...rows);
  }

  /** One column for each stage of the model, one row for each named value. */
  #showPipeline() {
    const stages = this.#pipeline;
    const names = new Set(stages.flatMap(({ values }) => Object.keys(values)));
    const rows = [...names].map((name) => {
      const row = createRow(
        labelOf(name),
        stages.map(({ values }) => formatValue(values[name])),
      );
      row.dataset.value = name;
      return row;
    });
    const head = ["Stage of the model", ...stages.map(({ stage }) => stage)];
    byId("pipeline").hidden = !rows.length;
    const table = query(byId("pipeline"), "table", HTMLTableElement);
    table.tHead?.rows[0].replaceChildren(...head.map((text) => create("th", { scope: "col", textContent: text })));
    table.tBodies[0].replaceChildren(...rows);
  }

  /** @param {number | null} bytes */
  #bitrate(bytes) {
    const time = performance.now();
    const last = this.#lastBytes;
    this.#lastBytes = bytes === null ? null : { bytes, time };
    return last && bytes !== null ? (8 * (bytes - last.bytes)) / (time - last.time) : null;
  }
}

/**
 * @param {string} label
 * @param {string[]} values
 */
function createRow(label, values) {
  const row = create("tr", {}, create("th", { scope: "row", textContent: label }));
  row.append(...values.map((value) => create("td", { textContent: value })));
  return row;
}

/**
 * @param {number | null} value
 * @param {string} unit
 */
function format(value, unit) {
  return value === null ? UNKNOWN : `${Math.round(value)} ${unit}`;
}

/**
 * Formats a named value of a stage: integers as they are, other numbers with one decimal.
 *
 * @param {number | string | null | undefined} value
 * @returns {string}
 */
export function formatValue(value) {
  if (value === null || value === undefined) return UNKNOWN;
  return typeof value === "number" && !Number.isInteger(value) ? value.toFixed(1) : String(value);
}

/**
 * Returns the label of a named value: its title, with the unit that its name ends with.
 *
 * @param {string} name
 * @returns {string} such as "Service p50, ms" for "service_p50_ms"
 */
export function labelOf(name) {
  const [, base, unit] = name.match(/^(.+)_(ms|s|hz|fps)$/) ?? [null, name, ""];
  return unit ? `${titleOf(base)}, ${unit}` : titleOf(base);
}
