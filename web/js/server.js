/** The address of a server, and the access to it. */
export class Server {
  /**
   * @param {string | URL} root address to which links are relative
   * @param {string | null} token of the server; null if it requires none, or if the browser has its cookie
   */
  constructor(root, token = null) {
    this.root = new URL(root);
    this.token = token;
  }

  /** The server of this page: as the page of a demo in a gallery declares it, otherwise that of {@link rootOf}. */
  static ofPage() {
    const declared = document.querySelector('meta[name="realtime-engine-root"]')?.getAttribute("content");
    return new Server(declared ? new URL(declared, document.baseURI) : rootOf(document.baseURI));
  }

  /**
   * Returns the address that a link of the server names.
   *
   * @param {string} link
   * @returns {URL}
   */
  resolve(link) {
    return new URL(link, this.root);
  }
}

/**
 * Returns the root of the server: the folder of the page, or the parent of `demos/NAME/` for a demo's custom page.
 *
 * @param {string} address of the page
 * @returns {URL}
 */
export function rootOf(address) {
  const url = new URL(address);
  url.pathname = url.pathname.replace(/^(.*)\/demos\/[^/]+\/.*$/, "$1/");
  return url;
}
