import { parsePacket } from "./packet.js";
import { PROTOCOL_VERSION } from "./protocol.js";

/** @import { VideoPacket } from "./packet.js" */

const CONNECT_TIMEOUT_MS = 4000;

/**
 * Receives the pictures of a session as JPEGs over the video WebSocket, and acknowledges them.
 *
 * @param {URL} url of the video WebSocket
 * @param {object} options
 * @param {AbortSignal} options.signal closes the connection
 * @param {() => void} options.onOpen
 * @param {(packet: VideoPacket) => void} options.onPicture
 * @returns {Promise<void>} resolves when the connection is closed, also if it never opened
 */
export function receiveJpegs(url, { signal, onOpen, onPicture }) {
  const address = new URL(url);
  address.searchParams.set("codec", "jpeg");
  const socket = new WebSocket(address);
  socket.binaryType = "arraybuffer";
  const close = () => socket.close();
  const timer = setTimeout(close, CONNECT_TIMEOUT_MS);
  signal.addEventListener("abort", close, { once: true });
  socket.addEventListener("open", () => {
    clearTimeout(timer);
    onOpen();
  });
  socket.addEventListener("message", ({ data }) => {
    if (socket.readyState !== WebSocket.OPEN) return;
    const packet = parsePacket(data);
    socket.send(JSON.stringify({ v: PROTOCOL_VERSION, type: "ack", number: packet.number }));
    onPicture(packet);
  });
  return new Promise((resolve) => {
    socket.addEventListener("close", () => {
      clearTimeout(timer);
      signal.removeEventListener("abort", close);
      resolve();
    });
  });
}
