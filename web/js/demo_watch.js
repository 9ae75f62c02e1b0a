/** Keeps the description of the demo current: relay credentials expire, and another demo may be served at the address. */

import { getDemo } from "./api.js";
import { Server } from "./server.js";

/** @import { Demo } from "./api.js" */

/** A description is used for connections for this long: a page that falls back connects several times in a row. */
const MAX_AGE_MS = 10_000;
/** Minimum time between two reloads, in case that several servers of different revisions answer at the address. */
const RELOAD_INTERVAL_MS = 60_000;
const RELOADED_AT = "realtime-engine-reloaded-at";

/**
 * Updates what the description says of connections, before a new one. If the server has another revision, another demo
 * or a newer page is served: the page reloads, and the promise does not resolve. A failure is ignored, because the
 * connection that follows reports it.
 *
 * @param {Demo} demo is updated in place
 * @param {string | null} invitation as of {@link getDemo}
 * @param {Server} server
 * @param {() => void} reload replaces the page
 * @returns {Promise<void>}
 */
export async function refreshDemo(demo, invitation = null, server = Server.ofPage(), reload = reloadPage) {
  if (performance.now() - demo.received < MAX_AGE_MS) return;
  const current = await getDemo(invitation, server).catch(() => null);
  if (!current) return;
  if (current.revision !== demo.revision && mayReload()) {
    reload();
    await new Promise(() => {});
  }
  const { received, transports, ice_servers, ice_transport_policy } = current;
  Object.assign(demo, { received, transports, ice_servers, ice_transport_policy });
}

/** Loads the newest page. */
export function reloadPage() {
  location.reload();
}

/** Whether the last reload was long ago; from now on it was not. */
function mayReload() {
  try {
    const last = Number(sessionStorage.getItem(RELOADED_AT));
    if (Date.now() - last < RELOAD_INTERVAL_MS) return false;
    sessionStorage.setItem(RELOADED_AT, String(Date.now()));
    return true;
  } catch {
    return false; // Without storage, nothing would stop a loop.
  }
}
