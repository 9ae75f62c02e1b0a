import { getLobby, thumbnailAddress, watchAddress } from "./api.js";
import { byId, create } from "./dom.js";

/** @import { LobbySession, LobbyState } from "./api.js" */

const INTERVAL_MS = 1000;

/** Shows the running sessions with pictures, each with a button to watch it in a new tab. */
export class Lobby {
  #element = byId("lobby");
  #list = byId("lobby-sessions");
  #text = byId("lobby-text");
  #onError;
  /** @type {Map<string, { item: HTMLElement, picture: HTMLImageElement, viewers: HTMLElement }>} */
  #tiles = new Map();
  /** @type {ReturnType<typeof setInterval> | undefined} */
  #timer;

  /** @param {(error: unknown) => void} onError */
  constructor(onError) {
    this.#onError = onError;
  }

  /** Shows the lobby, and keeps it up to date while the page is visible. */
  show() {
    if (this.#timer !== undefined) return;
    this.#timer = setInterval(() => this.#update(), INTERVAL_MS);
    this.#update();
  }

  /** Hides the lobby. */
  hide() {
    clearInterval(this.#timer);
    this.#timer = undefined;
    this.#element.hidden = true;
  }

  async #update() {
    if (document.hidden) return;
    try {
      const state = await getLobby();
      if (this.#timer !== undefined) this.#render(state);
    } catch {
      this.#element.hidden = true; // shown again by the next update that succeeds
    }
  }

  /** @param {LobbyState} state */
  #render({ sessions, waiting }) {
    this.#element.hidden = sessions.length === 0;
    this.#text.textContent = waiting === 0 ? "" : waiting === 1 ? "1 is waiting" : `${waiting} are waiting`;
    const ids = new Set(sessions.map((session) => session.session_id));
    for (const [id, { item }] of this.#tiles) {
      if (ids.has(id)) continue;
      item.remove();
      this.#tiles.delete(id);
    }
    for (const session of sessions) {
      const { picture, viewers } = this.#tiles.get(session.session_id) ?? this.#add(session);
      picture.src = thumbnailAddress(session);
      viewers.textContent = session.viewers === 1 ? "1 viewer" : `${session.viewers} viewers`;
    }
  }

  /** @param {LobbySession} session */
  #add(session) {
    const picture = create("img", { alt: "", className: "lobby-picture" });
    const viewers = create("span", { className: "lobby-viewers" });
    const button = create("button", { type: "button", textContent: "Watch" });
    button.addEventListener("click", () => this.#watch(session));
    const item = create("li", { className: "lobby-session" });
    item.append(picture, viewers, button);
    this.#list.append(item);
    const tile = { item, picture, viewers };
    this.#tiles.set(session.session_id, tile);
    return tile;
  }

  /** @param {LobbySession} session */
  async #watch(session) {
    const tab = window.open("about:blank"); // at once: later, the browser blocks it
    try {
      const address = await watchAddress(session);
      if (tab) tab.location.href = address.href;
      else location.href = address.href;
    } catch (error) {
      tab?.close();
      this.#onError(error);
    }
  }
}
