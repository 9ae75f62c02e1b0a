/** Messages of the video WebSocket (docs/protocol.md, "Video WebSocket"). */

const VERSION = 1;
const HEADER_BYTES = 36;
const KEYFRAME_FLAG = 1;
const NAL_TYPE_MASK = 31;
const NAL_TYPE_SPS = 7;

/**
 * @typedef {object} VideoPacket
 * @property {number} number of the message, counted from 0 in each connection
 * @property {boolean} keyframe
 * @property {number} timestamp microseconds
 * @property {number} epoch
 * @property {number} seq
 * @property {number} index
 * @property {number | null} actionSeq
 * @property {Uint8Array<ArrayBuffer>} data H.264 in Annex B format
 * @property {number} [received] milliseconds of `performance.now()`, set by the viewer
 */

/**
 * Parses a message of the server.
 *
 * @param {ArrayBuffer} message
 * @returns {VideoPacket}
 * @throws {Error} if the message is too short or of another version
 */
export function parsePacket(message) {
  const view = new DataView(message);
  if (message.byteLength < HEADER_BYTES || view.getUint8(0) !== VERSION) {
    throw new Error("The server sends video in an unsupported format");
  }
  const action = Number(view.getBigInt64(24));
  return {
    keyframe: Boolean(view.getUint8(1) & KEYFRAME_FLAG),
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
 * Returns the codec string (RFC 6381) of a keyframe: profile, constraints and level are the first three bytes of its
 * sequence parameter set (SPS).
 *
 * @param {Uint8Array} data H.264 in Annex B format
 * @returns {string | null} such as "avc1.42C01E"; null without an SPS
 */
export function codecOf(data) {
  for (let at = 0; at + 6 < data.length; at += 1) {
    const isStartCode = data[at] === 0 && data[at + 1] === 0 && data[at + 2] === 1;
    if (!isStartCode || (data[at + 3] & NAL_TYPE_MASK) !== NAL_TYPE_SPS) continue;
    const digits = [...data.subarray(at + 4, at + 7)].map((byte) => byte.toString(16).padStart(2, "0"));
    return `avc1.${digits.join("").toUpperCase()}`;
  }
  return null;
}
