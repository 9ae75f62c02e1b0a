import { DemoPage } from "./demo_page.js";
import { byId } from "./dom.js";
import { loadDemo } from "./load_demo.js";
import { Overlay } from "./overlay.js";
import { applyStyle } from "./page_style.js";
import { Server } from "./server.js";
import { transportNamed } from "./transports.js";

/** @import { Demo } from "./api.js" */

const NEVER = new AbortController().signal;

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
  let isStyled = false;
  const demo = await loadDemo({
    server: Server.ofPage(),
    invitation,
    onDemo: (loaded) => {
      showDescription(loaded);
      if (!isStyled) applyStyle(loaded.style);
      isStyled = true;
      if (loaded.state !== "loading") return;
      overlay.show("Loading the model", {
        text: loaded.progress?.message,
        progress: loaded.progress?.fraction ?? null,
      });
    },
    onRetry: (message) => overlay.show(message, { text: "Retrying", progress: null }),
    signal: NEVER,
  });
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
