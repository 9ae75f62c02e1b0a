import { Problem } from "./api.js";

/**
 * Why the server has no session for the user now, by the kind of its problem.
 *
 * @type {Record<string, { title: string, status: string }>}
 */
const REASONS = {
  loading: { title: "The model is loading", status: "Loading" },
  stalled: { title: "The model is not responding", status: "Stalled" },
  full: { title: "All sessions are in use", status: "Waiting" },
  closing: { title: "The server is shutting down", status: "Restarting" },
  "engine-failed": { title: "The model has failed", status: "Failed" },
};

/**
 * @param {unknown} error
 * @returns {{ title: string, status: string, detail: string } | null} null for any other error
 */
export function unavailability(error) {
  if (!(error instanceof Problem)) return null;
  const reason = REASONS[error.kind];
  if (!reason) return null;
  const repeats = error.message.replace(/\.$/, "") === reason.title;
  return { ...reason, detail: repeats ? "" : error.message };
}
