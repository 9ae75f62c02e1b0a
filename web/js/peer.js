import { request } from "./api.js";
import { Deferred } from "./timing.js";

/** How long a connection may be interrupted before it counts as lost. */
const INTERRUPTION_TIMEOUT_MS = 3000;

/**
 * A peer connection that is negotiated over HTTP, as WHEP and WHIP do: the offer is posted, the response holds the answer,
 * and its Location names the connection on the server.
 */
export class HttpPeer {
  #token;
  /** @type {URL | null} */
  #location = null;
  /** @type {string | null} */
  #etag = null;
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  #interruption;
  #abort = new AbortController();
  /** @type {Deferred<string>} */
  #ended = new Deferred();

  /** Resolves with the reason when the connection is lost, with "" after {@link close}. */
  ended = this.#ended.promise;

  /**
   * @param {RTCConfiguration} configuration
   * @param {string} token bearer token of the session
   */
  constructor(configuration, token) {
    this.connection = new RTCPeerConnection(configuration);
    this.#token = token;
    this.connection.addEventListener("connectionstatechange", () => this.#onStateChange());
  }

  /** Whether this browser supports WebRTC. */
  static get isSupported() {
    return typeof RTCPeerConnection === "function";
  }

  /** Name of the connection on the server, null before the answer. */
  get id() {
    return this.#location?.pathname.split("/").pop() ?? null;
  }

  /**
   * Posts the local description, and sets the answer as the remote one.
   *
   * @param {URL} url
   */
  async negotiate(url) {
    const response = await request("POST", url, {
      token: this.#token,
      headers: { "Content-Type": "application/sdp" },
      body: this.connection.localDescription?.sdp,
      signal: this.#abort.signal,
    });
    // The path may lack the prefix of a proxy; the connection is always below the address of its offer.
    const id = (response.headers.get("Location") ?? "").split("/").pop();
    this.#location = new URL(`${url.pathname}/${id}`, url);
    this.#etag = response.headers.get("ETag");
    await this.connection.setRemoteDescription({ type: "answer", sdp: await response.text() });
  }

  /**
   * Sends ICE candidates to the server. A failure is ignored, because the server also finds this peer by the connectivity
   * checks that it receives.
   *
   * @param {string} fragment SDP fragment (RFC 8840)
   */
  async sendCandidates(fragment) {
    if (!this.#location) return;
    /** @type {Record<string, string>} */
    const headers = { "Content-Type": "application/trickle-ice-sdpfrag" };
    if (this.#etag) headers["If-Match"] = this.#etag;
    await request("PATCH", this.#location, { token: this.#token, headers, body: fragment }).catch(() => {});
  }

  /**
   * Counts the connection as lost.
   *
   * @param {string} reason
   */
  end(reason) {
    this.#ended.resolve(reason);
  }

  /** Closes the connection, here and on the server. */
  async close() {
    this.end("");
    clearTimeout(this.#interruption);
    this.#abort.abort();
    this.connection.close();
    if (!this.#location) return;
    // The server closes the connection itself if the request does not reach it.
    await request("DELETE", this.#location, { token: this.#token, keepalive: true }).catch(() => {});
  }

  #onStateChange() {
    const state = this.connection.connectionState;
    clearTimeout(this.#interruption);
    if (state === "failed" || state === "closed") this.end("the connection was lost");
    if (state !== "disconnected") return;
    this.#interruption = setTimeout(() => this.end("the connection was lost"), INTERRUPTION_TIMEOUT_MS);
  }
}
