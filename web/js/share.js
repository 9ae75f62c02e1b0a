import { messageOf } from "./api.js";
import { byId } from "./dom.js";

const MEMBERS_INTERVAL_MS = 3000;

/** The dialog that shares the session: a link to watch it, and how many do. */
export class ShareDialog {
  #session;
  #onError;
  #dialog = byId("share-dialog", HTMLDialogElement);
  #link = byId("share-link", HTMLInputElement);
  #qr = byId("share-qr", HTMLImageElement);
  #viewers = byId("share-viewers");
  /** Session that the link belongs to. */
  #sessionId = "";
  /** @type {ReturnType<typeof setInterval> | undefined} */
  #timer;

  /**
   * @param {import("./session.js").Session} session
   * @param {(text: string) => void} onError
   */
  constructor(session, onError) {
    this.#session = session;
    this.#onError = onError;
  }

  /** Starts to listen. */
  listen() {
    byId("share").addEventListener("click", () => this.#open());
    byId("share-copy").addEventListener("click", () => this.#copy());
    byId("share-close").addEventListener("click", () => this.#dialog.close());
    this.#dialog.addEventListener("close", () => clearInterval(this.#timer));
    this.#link.addEventListener("focus", () => this.#link.select());
  }

  async #open() {
    const { grant } = this.#session;
    if (!grant) return;
    try {
      if (grant.id !== this.#sessionId) {
        const link = new URL((await grant.invite()).link, pageAddress()).href;
        URL.revokeObjectURL(this.#qr.src);
        this.#qr.src = URL.createObjectURL(await grant.qr(link));
        this.#link.value = link;
        this.#sessionId = grant.id;
      }
    } catch (error) {
      this.#onError(messageOf(error));
      return;
    }
    byId("share-copy").textContent = "Copy";
    this.#dialog.showModal();
    this.#showViewers();
    this.#timer = setInterval(() => this.#showViewers(), MEMBERS_INTERVAL_MS);
  }

  async #copy() {
    this.#link.select();
    try {
      await navigator.clipboard.writeText(this.#link.value);
    } catch {
      document.execCommand("copy"); // the only way on a page that was not loaded over HTTPS
    }
    byId("share-copy").textContent = "Copied";
  }

  async #showViewers() {
    try {
      const { members } = (await this.#session.grant?.members()) ?? { members: [] };
      const count = members.filter(({ connected }) => connected).length;
      this.#viewers.textContent = count === 1 ? "1 viewer" : `${count} viewers`;
    } catch (error) {
      this.#viewers.textContent = messageOf(error);
    }
  }
}

/** The address of this page without its query. */
function pageAddress() {
  return new URL("?", location.href);
}
