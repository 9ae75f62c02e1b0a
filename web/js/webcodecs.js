import { PacketDecoder } from "./decoder.js";
import { parsePacket } from "./packet.js";

/** The WebSocket must be open after this time. */
const CONNECT_MS = 4000;
/** How long an open one may take to its first picture: the model may still be warming up. */
const PATIENCE_MS = 30_000;
const BLOCKED = "WebCodecs could not connect (WebSocket blocked?)";
const NO_PICTURE = "No picture came by WebCodecs";

/**
 * Shows a session's H.264, which comes over a WebSocket and is decoded here, on a canvas.
 *
 * `ended` resolves with the reason when the picture is lost after it was shown, with "" when it was stopped.
 */
export class WebcodecsViewer {
  #socket = null;
  #decoder;
  #context;
  #bytes = 0;
  #deadline = 0;
  #newest = null;
  #failed = null;
  #end;
  #shown;

  /** What this viewer goes by when it tells the server what it has shown. */
  id = `webcodecs-${crypto.randomUUID()}`;

  /** Why this browser cannot do it, or null. */
  static get obstacle() {
    return PacketDecoder.obstacle;
  }

  /**
   * @param {HTMLCanvasElement} canvas gets a `resize` event when the picture has another size
   * @param {(frame: {time: number, identity: object, received: number, decoded: number}) => void} onFrame called for each
   *   frame shown
   */
  constructor(canvas, onFrame) {
    this.canvas = canvas;
    this.onFrame = onFrame;
    this.ended = new Promise((resolve) => (this.#end = resolve));
    this.#context = canvas.getContext("2d", { alpha: false });
    this.#decoder = new PacketDecoder({
      onPicture: (picture, packet) => this.#show(picture, packet),
      onLost: () => this.#say({ type: "keyframe" }),
      onError: () => this.#fail(new Error("This browser cannot decode the video by WebCodecs")),
    });
  }

  /**
   * Resolves when the first picture is there; rejects with the reason if it does not come.
   *
   * @param {import("./api.js").Place} place
   * @param {{expectPicture: boolean, signal: AbortSignal}} options without `expectPicture` the open connection is enough
   */
  async start(place, { expectPicture, signal }) {
    const address = place.video;
    address.searchParams.set("viewer", this.id);
    const socket = new WebSocket(address);
    this.#socket = socket;
    socket.binaryType = "arraybuffer";
    try {
      await new Promise((resolve, reject) => {
        const within = (milliseconds, why) => {
          clearTimeout(this.#deadline);
          this.#deadline = setTimeout(() => reject(new Error(why)), milliseconds);
        };
        this.#shown = resolve;
        this.#failed = reject;
        signal.addEventListener("abort", () => reject(signal.reason), { once: true });
        socket.addEventListener("open", () => (expectPicture ? within(PATIENCE_MS, NO_PICTURE) : resolve()));
        socket.addEventListener("message", ({ data }) => this.#receive(data));
        socket.addEventListener("close", () => this.#fail(new Error(this.#bytes ? NO_PICTURE : BLOCKED)));
        within(CONNECT_MS, BLOCKED);
      });
    } catch (error) {
      if (!signal.aborted) await place.check(); // which names a better reason, if the server or the session is gone
      throw error;
    } finally {
      clearTimeout(this.#deadline);
    }
  }

  /** Ends the connection; the last picture stays. */
  async stop() {
    this.#end("");
    this.#socket?.close();
    this.#decoder.close();
  }

  /** @returns {Promise<Record<string, number | string>>} what was counted. */
  async details() {
    return { codec: "H264", bytes: this.#bytes, dropped: this.#decoder.dropped };
  }

  #receive(message) {
    if (this.#socket.readyState !== WebSocket.OPEN) return;
    this.#bytes += message.byteLength;
    try {
      const packet = { ...parsePacket(message), received: performance.now() };
      this.#say({ type: "ack", number: packet.number });
      this.#decoder.decode(packet);
    } catch (error) {
      this.#fail(error);
    }
  }

  #say(message) {
    if (this.#socket.readyState === WebSocket.OPEN) this.#socket.send(JSON.stringify({ v: 1, ...message }));
  }

  #show(picture, packet) {
    packet.decoded = performance.now();
    const { canvas } = this;
    const { displayWidth: width, displayHeight: height } = picture;
    if (canvas.width !== width || canvas.height !== height) {
      [canvas.width, canvas.height] = [width, height];
      canvas.dispatchEvent(new Event("resize"));
    }
    this.#context.drawImage(picture, 0, 0);
    picture.close();
    this.#shown();
    if (!this.#newest) requestAnimationFrame(() => this.#report());
    this.#newest = packet;
  }

  /** Of pictures drawn between two frames of the screen only the last one is seen. */
  #report() {
    const identity = this.#newest;
    const { received, decoded } = identity;
    this.#newest = null;
    this.onFrame({ time: performance.now(), identity, received, decoded });
  }

  /** Before the first picture this is why there is none, afterwards why it was lost. */
  #fail(error) {
    this.#failed(error);
    this.#end("the connection was lost");
  }
}
