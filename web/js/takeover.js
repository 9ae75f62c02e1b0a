import { messageOf } from "./api.js";
import { byId } from "./dom.js";

/** @import { TakeoverMessage } from "./protocol.js" */

/** Take-over: asks the owner of the session for it, and asks the owner whether to give it to another client. */
export class TakeOver {
  #session;
  #notify;
  #button = byId("takeover", HTMLButtonElement);
  #request = byId("takeover-request");
  /** Clients that ask, the oldest first. @type {string[]} */
  #asking = [];

  /**
   * @param {import("./session.js").Session} session
   * @param {(text: string) => void} notify shows a short text
   */
  constructor(session, notify) {
    this.#session = session;
    this.#notify = notify;
  }

  /** Starts to listen. */
  listen() {
    this.#button.addEventListener("click", () => this.#ask());
    byId("takeover-accept").addEventListener("click", () => this.#answer(true));
    byId("takeover-refuse").addEventListener("click", () => this.#answer(false));
  }

  /** Shows what follows from the role and the state of the session. */
  update() {
    const { role, grant } = this.#session;
    this.#button.hidden = role === "owner" || !grant;
    if (role !== "owner" || !grant) this.#asking = [];
    this.#request.hidden = !this.#asking.length;
  }

  /** @param {TakeoverMessage} message */
  onMessage({ state, member }) {
    if (state === "refused") {
      this.#notify("The owner keeps the session.");
      return;
    }
    this.#asking = this.#asking.filter((each) => each !== member);
    if (state === "asked") this.#asking.push(member);
    this.update();
  }

  async #ask() {
    try {
      const isGranted = await this.#session.grant?.takeOver();
      if (!isGranted) this.#notify("The owner is asked.");
    } catch (error) {
      this.#notify(messageOf(error));
    }
  }

  /** @param {boolean} accept */
  async #answer(accept) {
    const member = this.#asking.shift();
    this.update();
    try {
      if (member) await this.#session.grant?.answerTakeOver(member, accept);
    } catch (error) {
      this.#notify(messageOf(error));
    }
  }
}
