const BLANK_LINE = [13, 10, 13, 10];

/** @typedef {{ headers: Map<string, string>, body: Uint8Array<ArrayBuffer> }} Part header names in lower case */

/**
 * Incremental parser of a multipart/x-mixed-replace body. Every part must have a Content-Length, so that it is complete
 * with its last byte instead of the boundary that follows.
 */
export class MultipartReader {
  /** @type {Uint8Array<ArrayBuffer>} */
  #buffer = new Uint8Array(0);

  /**
   * Adds bytes of the stream.
   *
   * @param {Uint8Array<ArrayBuffer>} bytes
   * @returns {Part[]} the parts that are complete now
   * @throws {Error} if a part has no Content-Length
   */
  push(bytes) {
    this.#buffer = concatenate(this.#buffer, bytes);
    const parts = [];
    for (let part = this.#next(); part; part = this.#next()) parts.push(part);
    return parts;
  }

  /** @returns {Part | null} */
  #next() {
    const headEnd = indexOf(this.#buffer, BLANK_LINE);
    if (headEnd < 0) return null;
    const headers = parseHeaders(new TextDecoder("latin1").decode(this.#buffer.subarray(0, headEnd)));
    const length = Number.parseInt(headers.get("content-length") ?? "", 10);
    if (!Number.isFinite(length)) throw new Error("A part of the MJPEG stream has no Content-Length");
    const start = headEnd + BLANK_LINE.length;
    if (this.#buffer.length < start + length) return null;
    const body = this.#buffer.slice(start, start + length);
    this.#buffer = this.#buffer.subarray(start + length);
    return { headers, body };
  }
}

/**
 * @param {Uint8Array<ArrayBuffer>} first
 * @param {Uint8Array<ArrayBuffer>} second
 */
function concatenate(first, second) {
  if (first.length === 0) return second;
  const whole = new Uint8Array(first.length + second.length);
  whole.set(first);
  whole.set(second, first.length);
  return whole;
}

/**
 * @param {Uint8Array} bytes
 * @param {number[]} pattern
 */
function indexOf(bytes, pattern) {
  for (let at = bytes.indexOf(pattern[0]); at >= 0; at = bytes.indexOf(pattern[0], at + 1)) {
    if (pattern.every((byte, offset) => bytes[at + offset] === byte)) return at;
  }
  return -1;
}

/**
 * @param {string} text
 * @returns {Map<string, string>}
 */
function parseHeaders(text) {
  /** @type {Map<string, string>} */
  const headers = new Map();
  for (const line of text.split("\r\n")) {
    const colon = line.indexOf(":");
    if (colon >= 0) headers.set(line.slice(0, colon).trim().toLowerCase(), line.slice(colon + 1).trim());
  }
  return headers;
}
