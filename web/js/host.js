import { reloadPage } from "./demo_watch.js";
import { Server } from "./server.js";
import { pageStore } from "./storage.js";

/**
 * Where a session is shown.
 *
 * @typedef {object} Host
 * @property {Server} server
 * @property {import("./storage.js").SessionStore} store
 * @property {() => void} reload called when the server has another revision of the demo or of the page
 */

/**
 * @param {string | null} invitation of a tab that joins a session
 * @returns {Host} of the page's session
 */
export function hostOfPage(invitation) {
  return { server: Server.ofPage(), store: pageStore(invitation), reload: reloadPage };
}
