import { codecOf } from "./packet.js";

/** Packets that may wait for the decoder: more would only make the picture late. */
const MOST_QUEUED = 4;

/**
 * Decodes packets and hands out pictures as soon as they are there. One that falls behind, or fails, goes on with the next
 * keyframe.
 */
export class PacketDecoder {
  #decoder = null;
  #codec = null;
  #identities = new Map();
  #waitsForKeyframe = true;
  #worked = false;
  #callbacks;

  /** Why this browser cannot do it, or null. */
  static get obstacle() {
    if (typeof VideoDecoder === "function") return null;
    return isSecureContext ? "This browser has no WebCodecs" : "WebCodecs needs HTTPS or localhost";
  }

  /**
   * @param {object} callbacks
   * @param {(picture: VideoFrame, packet: object) => void} callbacks.onPicture is to close the picture
   * @param {() => void} callbacks.onLost a keyframe is needed to go on
   * @param {(error: Error) => void} callbacks.onError the decoder does not work at all
   */
  constructor(callbacks) {
    this.#callbacks = callbacks;
    this.dropped = 0;
  }

  /** @param {ReturnType<import("./packet.js").parsePacket>} packet */
  decode(packet) {
    if (!packet.keyframe && !this.#waitsForKeyframe && this.#decoder.decodeQueueSize >= MOST_QUEUED) this.#lose();
    if (this.#waitsForKeyframe && !packet.keyframe) {
      this.dropped += 1;
      return;
    }
    try {
      if (packet.keyframe) this.#configure(packet);
      const { timestamp, data, keyframe } = packet;
      this.#decoder.decode(new EncodedVideoChunk({ type: keyframe ? "key" : "delta", timestamp, data }));
      this.#identities.set(timestamp, packet);
      this.#waitsForKeyframe = false;
    } catch (error) {
      this.#fail(error);
    }
  }

  /** Frees the decoder. */
  close() {
    this.#callbacks = null;
    if (this.#decoder?.state !== "closed") this.#decoder?.close();
  }

  #configure({ data }) {
    const codec = codecOf(data);
    if (!codec) throw new Error("The server's video has a keyframe without parameter sets");
    if (this.#decoder?.state === "configured" && codec === this.#codec) return;
    if (!this.#decoder || this.#decoder.state === "closed") {
      this.#decoder = new VideoDecoder({ output: (picture) => this.#output(picture), error: (error) => this.#fail(error) });
    }
    this.#codec = codec;
    this.#decoder.configure({ codec, optimizeForLatency: true });
  }

  #output(picture) {
    const packet = this.#identities.get(picture.timestamp);
    this.#identities.delete(picture.timestamp);
    this.#worked = true;
    if (packet && this.#callbacks) this.#callbacks.onPicture(picture, packet);
    else picture.close();
  }

  /** What waits is given up: decoding it would only cost time. */
  #lose() {
    this.dropped += this.#identities.size;
    this.#identities.clear();
    this.#decoder.reset();
    this.#waitsForKeyframe = true;
    this.#callbacks.onLost();
  }

  /** The decoder cannot go on. If it has worked, another one may. */
  #fail(error) {
    if (this.#decoder?.state === "configured") this.#decoder.reset();
    this.#identities.clear();
    this.#waitsForKeyframe = true;
    const { onLost, onError } = this.#callbacks ?? {};
    if (this.#worked) onLost?.();
    else onError?.(error);
    this.#worked = false;
  }
}
