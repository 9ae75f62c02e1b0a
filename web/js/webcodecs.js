import { PacketDecoder } from "./decoder.js";
import { parsePacket } from "./packet.js";
import { PresentationReporter } from "./presentation.js";
import { PROTOCOL_VERSION } from "./protocol.js";
import { Deadline, Deferred } from "./timing.js";

/** @import { VideoPacket } from "./packet.js" */

const CONNECT_TIMEOUT_MS = 4000;
/** Timeout of the first frame of an open connection: the model may still be warming up. */
const FIRST_FRAME_TIMEOUT_MS = 30_000;
const CONNECTION_FAILED = "WebCodecs could not connect (WebSocket blocked?)";
const NO_FRAME = "No video received over WebCodecs";

/**
 * Receives the H.264 video of a session over a WebSocket, decodes it with WebCodecs and draws it on a canvas.
 *
 * Implements {@link import("./display.js").Viewer}.
 */
export class WebcodecsViewer {
  #canvas;
  #presentation;
  #context;
  #decoder;
  /** @type {WebSocket | null} */
  #socket = null;
  #bytes = 0;
  /** @type {Deferred<boolean>} */
  #started = new Deferred();
  /** @type {Deferred<string>} */
  #ended = new Deferred();

  id = `webcodecs-${crypto.randomUUID()}`;
  ended = this.#ended.promise;

  /** Why this browser cannot use it, or null. */
  static get unsupportedReason() {
    return PacketDecoder.unsupportedReason;
  }

  /**
   * @param {HTMLCanvasElement} canvas receives a `resize` event when the size of the video changes
   * @param {import("./display.js").OnFrame} onFrame
   */
  constructor(canvas, onFrame) {
    this.#canvas = canvas;
    this.#presentation = new PresentationReporter(onFrame);
    this.#context = canvas.getContext("2d", { alpha: false });
    this.#decoder = new PacketDecoder({
      onFrame: (frame, packet) => this.#draw(frame, packet),
      onKeyframeNeeded: () => this.#send({ type: "keyframe" }),
      onError: () => this.#fail(new Error("This browser cannot decode the video with WebCodecs")),
    });
  }

  /**
   * @param {import("./api.js").SessionGrant} grant
   * @param {Pick<import("./display.js").ViewerOptions, "expectFrame">} options
   */
  async start(grant, { expectFrame }) {
    const url = grant.video;
    url.searchParams.set("viewer", this.id);
    const socket = new WebSocket(url);
    this.#socket = socket;
    socket.binaryType = "arraybuffer";
    const deadline = new Deadline(this.#started.reject);
    deadline.set(CONNECT_TIMEOUT_MS, CONNECTION_FAILED);
    socket.addEventListener("open", () => {
      if (expectFrame) deadline.set(FIRST_FRAME_TIMEOUT_MS, NO_FRAME);
      else this.#started.resolve(true);
    });
    socket.addEventListener("message", ({ data }) => this.#onMessage(data));
    socket.addEventListener("close", () => this.#fail(new Error(this.#bytes ? NO_FRAME : CONNECTION_FAILED)));
    try {
      return await this.#started.promise;
    } catch (error) {
      await grant.describe(); // throws a more specific error if the session or the server is gone
      throw error;
    } finally {
      deadline.clear();
    }
  }

  async stop() {
    this.#started.resolve(false);
    this.#ended.resolve("");
    this.#socket?.close();
    this.#decoder.close();
  }

  async statistics() {
    return { codec: "H264", bytes: this.#bytes, dropped: this.#decoder.dropped };
  }

  /** @param {ArrayBuffer} message */
  #onMessage(message) {
    if (this.#socket?.readyState !== WebSocket.OPEN) return;
    this.#bytes += message.byteLength;
    try {
      const packet = parsePacket(message);
      packet.received = performance.now();
      this.#send({ type: "ack", number: packet.number });
      this.#decoder.decode(packet);
    } catch (error) {
      this.#fail(error);
    }
  }

  /** @param {{ type: "ack", number: number } | { type: "keyframe" }} message */
  #send(message) {
    if (this.#socket?.readyState !== WebSocket.OPEN) return;
    this.#socket.send(JSON.stringify({ v: PROTOCOL_VERSION, ...message }));
  }

  /**
   * @param {VideoFrame} frame
   * @param {VideoPacket} packet
   */
  #draw(frame, packet) {
    const decoded = performance.now();
    const canvas = this.#canvas;
    const { displayWidth: width, displayHeight: height } = frame;
    if (canvas.width !== width || canvas.height !== height) {
      [canvas.width, canvas.height] = [width, height];
      canvas.dispatchEvent(new Event("resize"));
    }
    this.#context?.drawImage(frame, 0, 0);
    frame.close();
    this.#started.resolve(true);
    this.#presentation.add({ identity: packet, received: packet.received, decoded });
  }

  /** @param {unknown} error why there is no first frame */
  #fail(error) {
    this.#started.reject(error);
    this.#ended.resolve("the connection was lost");
  }
}
