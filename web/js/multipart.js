const BLANK_LINE = [13, 10, 13, 10];

/**
 * Takes a multipart/x-mixed-replace body apart as it arrives. Every part must carry Content-Length, so that a part is
 * complete with its last byte and not only with the boundary after it.
 */
export class MultipartReader {
  #buffer = new Uint8Array(0);

  /**
   * @param {Uint8Array} bytes
   * @returns {{headers: Map<string, string>, body: Uint8Array}[]} complete parts; header names in lower case
   */
  push(bytes) {
    this.#buffer = joined(this.#buffer, bytes);
    const parts = [];
    for (let part = this.#take(); part; part = this.#take()) parts.push(part);
    return parts;
  }

  #take() {
    const headEnd = find(this.#buffer, BLANK_LINE);
    if (headEnd < 0) return null;
    const headers = parseHeaders(new TextDecoder("latin1").decode(this.#buffer.subarray(0, headEnd)));
    const length = Number.parseInt(headers.get("content-length"), 10);
    if (!Number.isFinite(length)) throw new Error("A part of the MJPEG stream has no Content-Length");
    const start = headEnd + BLANK_LINE.length;
    if (this.#buffer.length < start + length) return null;
    const body = this.#buffer.slice(start, start + length);
    this.#buffer = this.#buffer.subarray(start + length);
    return { headers, body };
  }
}

function joined(first, second) {
  if (first.length === 0) return second;
  const whole = new Uint8Array(first.length + second.length);
  whole.set(first);
  whole.set(second, first.length);
  return whole;
}

function find(bytes, pattern) {
  for (let at = bytes.indexOf(pattern[0]); at >= 0; at = bytes.indexOf(pattern[0], at + 1)) {
    if (pattern.every((byte, offset) => bytes[at + offset] === byte)) return at;
  }
  return -1;
}

function parseHeaders(text) {
  const lines = text.split("\r\n").filter((line) => line.includes(":"));
  return new Map(lines.map((line) => {
    const colon = line.indexOf(":");
    return [line.slice(0, colon).trim().toLowerCase(), line.slice(colon + 1).trim()];
  }));
}
