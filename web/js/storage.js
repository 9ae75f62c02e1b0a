import { Server } from "./server.js";

/**
 * A value of this tab that survives a reload. Where the browser denies storage, it lasts as long as the page.
 *
 * @template T
 */
class StoredValue {
  #name;
  #scope;
  /** @type {T | null} */
  #fallback = null;

  /**
   * @param {string} name
   * @param {string | null} scope separates values of the same name; null for the path of the page's server
   */
  constructor(name, scope = null) {
    this.#name = name;
    this.#scope = scope;
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
    return `realtime-engine:${this.#scope ?? Server.ofPage().root.pathname}:${this.#name}`;
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

/**
 * @typedef {object} SessionStore what a session keeps over a reload
 * @property {StoredValue<import("./api.js").GrantBody>} grant
 * @property {StoredValue<string>} ticket
 */

/**
 * @param {string | null} invitation of a tab that joins a session
 * @returns {SessionStore} of the page's session
 */
export function pageStore(invitation) {
  return { grant: invitation === null ? storedGrant : storedMembership(invitation), ticket: storedTicket };
}

/**
 * @param {string} scope names the server and the place of the session in the page
 * @returns {SessionStore} of a session in a page of another site
 */
export function embeddedStore(scope) {
  return { grant: new StoredValue("session", scope), ticket: new StoredValue("ticket", scope) };
}
