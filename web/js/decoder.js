import { codecOf } from "./packet.js";

/** @import { VideoPacket } from "./packet.js" */

/** Packets that may wait in the decoder: more would only delay the video. */
const MAX_QUEUED = 4;

/**
 * @typedef {object} DecoderCallbacks
 * @property {(frame: VideoFrame, packet: VideoPacket) => void} onFrame must close the frame
 * @property {() => void} onKeyframeNeeded decoding continues with the next keyframe
 * @property {(error: Error) => void} onError the decoder cannot decode this video
 */

/** Decodes packets with low delay. A decoder that falls behind or fails continues with the next keyframe. */
export class PacketDecoder {
  /** @type {VideoDecoder | null} */
  #decoder = null;
  /** @type {string | null} */
  #codec = null;
  /** @type {Map<number, VideoPacket>} */
  #pending = new Map();
  #needsKeyframe = true;
  #hasDecoded = false;
  /** @type {DecoderCallbacks | null} */
  #callbacks;

  /** Packets that were not decoded. */
  dropped = 0;

  /** Why this browser has no decoder, or null. */
  static get unsupportedReason() {
    if (typeof VideoDecoder === "function") return null;
    return isSecureContext ? "This browser does not support WebCodecs" : "WebCodecs requires HTTPS or localhost";
  }

  /** @param {DecoderCallbacks} callbacks */
  constructor(callbacks) {
    this.#callbacks = callbacks;
  }

  /** @param {VideoPacket} packet */
  decode(packet) {
    if (!packet.keyframe && !this.#needsKeyframe && this.#queueSize >= MAX_QUEUED) this.#dropPending();
    if (this.#needsKeyframe && !packet.keyframe) {
      this.dropped += 1;
      return;
    }
    try {
      const decoder = packet.keyframe ? this.#configure(packet.data) : this.#decoder;
      const { timestamp, data, keyframe } = packet;
      decoder?.decode(new EncodedVideoChunk({ type: keyframe ? "key" : "delta", timestamp, data }));
      this.#pending.set(timestamp, packet);
      this.#needsKeyframe = false;
    } catch (error) {
      this.#fail(/** @type {Error} */ (error));
    }
  }

  /** Releases the decoder. */
  close() {
    this.#callbacks = null;
    if (this.#decoder?.state !== "closed") this.#decoder?.close();
  }

  get #queueSize() {
    return this.#decoder?.decodeQueueSize ?? 0;
  }

  /**
   * Returns a decoder that is configured for a keyframe.
   *
   * @param {Uint8Array} data
   */
  #configure(data) {
    const codec = codecOf(data);
    if (!codec) throw new Error("The server sent a keyframe without parameter sets");
    if (this.#decoder?.state === "configured" && codec === this.#codec) return this.#decoder;
    if (!this.#decoder || this.#decoder.state === "closed") {
      this.#decoder = new VideoDecoder({
        output: (frame) => this.#onOutput(frame),
        error: (error) => this.#fail(error),
      });
    }
    this.#codec = codec;
    this.#decoder.configure({ codec, optimizeForLatency: true });
    return this.#decoder;
  }

  /** @param {VideoFrame} frame */
  #onOutput(frame) {
    const packet = this.#pending.get(frame.timestamp);
    this.#pending.delete(frame.timestamp);
    this.#hasDecoded = true;
    if (packet && this.#callbacks) this.#callbacks.onFrame(frame, packet);
    else frame.close();
  }

  /** Drops the queued packets, because decoding them would only delay the video. */
  #dropPending() {
    this.dropped += this.#pending.size;
    this.#pending.clear();
    this.#decoder?.reset();
    this.#needsKeyframe = true;
    this.#callbacks?.onKeyframeNeeded();
  }

  /**
   * Resets after an error. A decoder that has decoded frames before may do so again; one that has not cannot decode this
   * video.
   *
   * @param {Error} error
   */
  #fail(error) {
    if (this.#decoder?.state === "configured") this.#decoder.reset();
    this.#pending.clear();
    this.#needsKeyframe = true;
    if (this.#hasDecoded) this.#callbacks?.onKeyframeNeeded();
    else this.#callbacks?.onError(error);
    this.#hasDecoded = false;
  }
}
