import { getDemo, messageOf } from "./api.js";
import { DemoPage } from "./demo_page.js";
import { byId } from "./dom.js";
import { Overlay } from "./overlay.js";
import { applyStyle } from "./page_style.js";
import { Backoff, sleep } from "./timing.js";
import { transportNamed } from "./transports.js";

/** @import { Demo } from "./api.js" */

const POLL_INTERVAL_MS = 500;
const NEVER = new AbortController().signal;

/**
 * Waits until the model is loaded or has failed, and shows the progress.
 *
 * @param {Overlay} overlay
 * @param {string | null} invitation
 * @returns {Promise<Demo>}
 */
async function loadDemo(overlay, invitation) {
  const backoff = new Backoff();
  let isStyled = false;
  for (;;) {
    try {
      const demo = await getDemo(invitation);
      showDescription(demo);
      if (!isStyled) applyStyle(demo.style);
      isStyled = true;
      if (demo.state !== "loading") return demo;
      backoff.reset();
      overlay.show("Loading the model", { text: demo.progress?.message, progress: demo.progress?.fraction ?? null });
      await sleep(POLL_INTERVAL_MS, NEVER);
    } catch (error) {
      overlay.show(messageOf(error), { text: "Retrying", progress: null });
      await sleep(backoff.next(), NEVER);
    }
  }
}

/** @param {Demo} demo */
function showDescription({ title, name, description, gallery }) {
  document.title = title || name;
  byId("title").textContent = title || name;
  byId("description").textContent = description ?? "";
  byId("gallery-link", HTMLAnchorElement).href = gallery ?? "";
  byId("gallery").hidden = !gallery;
}

async function main() {
  const overlay = new Overlay();
  const query = new URLSearchParams(location.search);
  const invitation = query.get("watch") ?? query.get("join");
  const demo = await loadDemo(overlay, invitation);
  if (demo.state === "failed") {
    byId("status").textContent = "Failed";
    byId("status").dataset.state = "ended";
    const text = demo.error ?? "";
    overlay.show("The model could not be loaded", { text, button: "Reload", onClick: () => location.reload() });
    return;
  }
  new DemoPage(demo, overlay, transportNamed(query.get("transport")), invitation).start();
}

main();
