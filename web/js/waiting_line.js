import { Problem, Unreachable } from "./api.js";
import { Deferred, sleep } from "./timing.js";

/** @import { Ticket, TicketStatus } from "./api.js" */

const POLL_INTERVAL_MS = 2000;

/**
 * Waits until a place is reserved for a ticket.
 *
 * @param {Ticket} ticket
 * @param {(status: TicketStatus) => void} onStatus called with each status of the waiting ticket
 * @param {AbortSignal} signal
 * @returns {Promise<boolean>} whether a place is reserved; false if the ticket is not in the line any more
 */
export async function waitInLine(ticket, onStatus, signal) {
  const source = new EventSource(ticket.events);
  let changed = new Deferred();
  source.addEventListener("ticket", (event) => {
    ticket.status = JSON.parse(event.data);
    changed.resolve(null);
  });
  try {
    while (ticket.status.state === "waiting") {
      onStatus(ticket.status);
      changed = new Deferred();
      await Promise.race([sleep(POLL_INTERVAL_MS, signal), changed.promise]);
      // Without an open stream, as behind a proxy that buffers it, the requests show that this client is present.
      if (source.readyState !== EventSource.OPEN) await refresh(ticket);
    }
    return ticket.status.state === "reserved";
  } finally {
    source.close();
  }
}

/**
 * Updates the status of a ticket; without a connection it stays as it is.
 *
 * @param {Ticket} ticket
 */
async function refresh(ticket) {
  try {
    await ticket.refresh();
  } catch (error) {
    if (error instanceof Problem && error.isGone) ticket.status.state = "absent";
    else if (!(error instanceof Unreachable)) throw error;
  }
}

/**
 * Describes a wait in words.
 *
 * @param {TicketStatus} status
 * @returns {string}
 */
export function describeWait({ estimated_wait_s: seconds }) {
  if (seconds < 10) return "Your turn is next.";
  if (seconds < 90) return `About ${Math.ceil(seconds / 10) * 10} seconds to wait.`;
  const minutes = Math.round(seconds / 60);
  return `About ${minutes} minutes to wait.`;
}
