/** Drives a session without a keyboard: forward, with a turn every second. */

import { connect, type ServerMessage } from "realtime-engine";

const session = connect("http://127.0.0.1:8000/", { context: { seed: 7 }, queueTimeout: 60 });
document.body.append(session.element);
session.on("state", ({ state, text }) => {
  document.title = `${state} ${text}`;
});
session.on("ticket", ({ position, estimated_wait_s }) => {
  document.title = `Number ${position}, about ${estimated_wait_s} s`;
});
session.on("message", (message: ServerMessage) => {
  if (message.type === "event" && message.event === "finished") session.reset({ seed: 8 });
});
await session.ready;
let turns = 0;
setInterval(() => session.sendControls({ keys: turns++ % 2 ? ["KeyW"] : ["KeyW", "ArrowRight"] }), 1000);
addEventListener("pagehide", () => session.close());
