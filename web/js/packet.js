/** The messages of the video WebSocket: docs/protocol.md, "Video by WebSocket". */

const VERSION = 1;
const HEADER_BYTES = 36;
const KEYFRAME = 1;
const SPS = 7;

/**
 * @param {ArrayBuffer} message
 * @returns {{number: number, keyframe: boolean, timestamp: number, epoch: number, seq: number, index: number,
 *   actionSeq: number | null, data: Uint8Array}} `timestamp` in microseconds, `data` is H.264 in Annex B
 */
export function parsePacket(message) {
  const view = new DataView(message);
  if (message.byteLength < HEADER_BYTES || view.getUint8(0) !== VERSION) throw new Error("The server's video is of another version");
  const action = Number(view.getBigInt64(24));
  return {
    keyframe: Boolean(view.getUint8(1) & KEYFRAME),
    index: view.getUint16(2),
    number: view.getUint32(4),
    timestamp: Number(view.getBigUint64(8)),
    seq: Number(view.getBigUint64(16)),
    actionSeq: action < 0 ? null : action,
    epoch: view.getUint32(32),
    data: new Uint8Array(message, HEADER_BYTES),
  };
}

/**
 * The codec string (RFC 6381) of a keyframe: profile, constraints and level are the first three bytes of its sequence
 * parameter set.
 *
 * @param {Uint8Array} data H.264 in Annex B
 * @returns {string | null} such as "avc1.42C01E"; null without a parameter set
 */
export function codecOf(data) {
  for (let at = 0; at + 6 < data.length; at += 1) {
    const isStart = data[at] === 0 && data[at + 1] === 0 && data[at + 2] === 1;
    if (!isStart || (data[at + 3] & 31) !== SPS) continue;
    const digits = [...data.subarray(at + 4, at + 7)].map((byte) => byte.toString(16).padStart(2, "0"));
    return `avc1.${digits.join("").toUpperCase()}`;
  }
  return null;
}
