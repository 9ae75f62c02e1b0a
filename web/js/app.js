import { getDemo } from "./api.js";
import { Console } from "./console.js";
import { Overlay } from "./overlay.js";
import { Backoff, sleep } from "./timing.js";
import { TRANSPORTS } from "./transports.js";

const POLL_MS = 500;
const find = (id) => document.getElementById(id);
const forever = new AbortController().signal;

/** Asks for the demo until its model is loaded, and shows how far it is. */
async function awaitDemo(overlay) {
  const backoff = new Backoff();
  for (;;) {
    try {
      const demo = await getDemo();
      introduce(demo);
      if (demo.state !== "loading") return demo;
      backoff.reset();
      overlay.show("Loading the model", { text: demo.progress?.message, progress: demo.progress?.fraction ?? null });
      await sleep(POLL_MS, forever);
    } catch (error) {
      overlay.show(error.message, { text: "Trying again", progress: null });
      await sleep(backoff.next(), forever);
    }
  }
}

function introduce({ title, name, description }) {
  document.title = title || name;
  find("title").textContent = title || name;
  find("description").textContent = description ?? "";
}

async function main() {
  const overlay = new Overlay(find);
  const demo = await awaitDemo(overlay);
  if (demo.state === "failed") {
    find("status").textContent = "Failed";
    find("status").dataset.state = "ended";
    const again = { button: "Look again", onClick: () => location.reload() };
    overlay.show("The model could not be loaded", { text: demo.error, ...again });
    return;
  }
  const asked = new URLSearchParams(location.search).get("transport");
  const forced = TRANSPORTS.includes(asked) ? asked : null;
  new Console(demo, overlay, forced, find).begin();
}

main();
