import { serverRoot } from "./api.js";

/**
 * A value of this tab that survives a reload. Where the browser denies storage, it lasts as long as the page.
 *
 * @template T
 */
class StoredValue {
  #name;
  /** @type {T | null} */
  #fallback = null;

  /** @param {string} name */
  constructor(name) {
    this.#name = name;
  }

  /** @returns {T | null} */
  get value() {
    try {
      return JSON.parse(sessionStorage.getItem(this.#key) ?? "null");
    } catch {
      return this.#fallback;
    }
  }

  /** @param {T | null} value */
  set value(value) {
    this.#fallback = value;
    try {
      if (value === null) sessionStorage.removeItem(this.#key);
      else sessionStorage.setItem(this.#key, JSON.stringify(value));
    } catch {
      // Storage is denied; the fallback has the value.
    }
  }

  /** Two servers below different paths of one host share the storage. */
  get #key() {
    return `realtime-engine:${serverRoot().pathname}:${this.#name}`;
  }
}

/** @type {StoredValue<string>} Id of the ticket in the waiting line. */
export const storedTicket = new StoredValue("ticket");

/**
 * The access of this tab to a session that it joined.
 *
 * @param {string} invitation token of the invitation
 * @returns {StoredValue<import("./api.js").GrantBody>}
 */
export function storedMembership(invitation) {
  return new StoredValue(`watch:${invitation}`);
}

/** @type {StoredValue<import("./api.js").GrantBody>} The session of this tab. */
export const storedGrant = new StoredValue("session");
