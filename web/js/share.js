import { messageOf } from "./api.js";
import { byId } from "./dom.js";

/** @import { Invitation, Role } from "./api.js" */

const MEMBERS_INTERVAL_MS = 3000;
const LOOPBACK = /^(localhost|127\.\d+\.\d+\.\d+|\[::1\])$/;

/** The dialog that shares the session: links to watch and to control it, and who has joined. */
export class ShareDialog {
  #session;
  #onError;
  #dialog = byId("share-dialog", HTMLDialogElement);
  #role = byId("share-role", HTMLSelectElement);
  #link = byId("share-link", HTMLInputElement);
  #qr = byId("share-qr", HTMLImageElement);
  #members = byId("share-viewers");
  /** Session that the invitations belong to. */
  #sessionId = "";
  /** @type {Map<string, Invitation>} Invitations that are shared, by role. */
  #invitations = new Map();
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
    byId("share").addEventListener("click", () => this.#run(() => this.#open()));
    byId("share-copy").addEventListener("click", () => this.#copy());
    byId("share-stop").addEventListener("click", () => this.#run(() => this.#stop()));
    byId("share-close").addEventListener("click", () => this.close());
    this.#role.addEventListener("change", () => this.#run(() => this.#showLink()));
    this.#dialog.addEventListener("close", () => clearInterval(this.#timer));
    this.#link.addEventListener("focus", () => this.#link.select());
  }

  /** Closes the dialog. */
  close() {
    this.#dialog.close();
  }

  async #open() {
    byId("share-note").hidden = !LOOPBACK.test(location.hostname);
    await this.#showLink();
    this.#dialog.showModal();
    this.#run(() => this.#showMembers());
    this.#timer = setInterval(() => this.#run(() => this.#showMembers()), MEMBERS_INTERVAL_MS);
  }

  /** @param {() => Promise<void>} action */
  async #run(action) {
    try {
      await action();
    } catch (error) {
      if (this.#dialog.open) this.#members.textContent = messageOf(error);
      else this.#onError(messageOf(error));
    }
  }

  /** Shows the link for the chosen role; it is made at first use. */
  async #showLink() {
    const { grant } = this.#session;
    if (!grant) return;
    if (grant.id !== this.#sessionId) {
      this.#invitations.clear();
      this.#sessionId = grant.id;
    }
    const role = /** @type {Role} */ (this.#role.value);
    const invitation = this.#invitations.get(role) ?? (await grant.invite(role));
    this.#invitations.set(role, invitation);
    const link = new URL(invitation.link, pageAddress()).href;
    const qr = await grant.qr(link);
    URL.revokeObjectURL(this.#qr.src);
    this.#qr.src = URL.createObjectURL(qr);
    this.#link.value = link;
    byId("share-copy").textContent = "Copy";
  }

  /** Revokes the links, which disconnects all who have joined by them. */
  async #stop() {
    const { grant } = this.#session;
    for (const { id } of this.#invitations.values()) await grant?.revoke(id);
    this.#invitations.clear();
    this.close();
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

  async #showMembers() {
    const { members } = (await this.#session.grant?.members()) ?? { members: [] };
    const connected = members.filter((member) => member.connected);
    const controllers = connected.filter(({ role }) => role === "controller").length;
    const viewers = connected.length - controllers;
    const texts = [viewers === 1 ? "1 viewer" : `${viewers} viewers`];
    if (controllers) texts.push(controllers === 1 ? "1 controller" : `${controllers} controllers`);
    this.#members.textContent = texts.join(", ");
  }
}

/** The address of this page without its query. */
function pageAddress() {
  return new URL("?", location.href);
}
