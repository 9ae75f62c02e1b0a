import { getDemo, messageOf } from "./api.js";
import { Backoff, sleep } from "./timing.js";

/** @import { Demo } from "./api.js" */
/** @import { Server } from "./server.js" */

const POLL_INTERVAL_MS = 500;

/**
 * Waits until the model is loaded or has failed. A server that cannot be reached is asked again.
 *
 * @param {object} options
 * @param {Server} options.server
 * @param {string | null} options.invitation
 * @param {(demo: Demo) => void} options.onDemo called with each description, also while the model is loading
 * @param {(message: string) => void} options.onRetry called with the reason before each wait for another attempt
 * @param {AbortSignal} options.signal
 * @returns {Promise<Demo>}
 */
export async function loadDemo({ server, invitation, onDemo, onRetry, signal }) {
  const backoff = new Backoff();
  for (;;) {
    try {
      const demo = await getDemo(invitation, server);
      signal.throwIfAborted();
      onDemo(demo);
      if (demo.state !== "loading") return demo;
      backoff.reset();
      await sleep(POLL_INTERVAL_MS, signal);
    } catch (error) {
      if (signal.aborted) throw error;
      onRetry(messageOf(error));
      await sleep(backoff.next(), signal);
    }
  }
}
