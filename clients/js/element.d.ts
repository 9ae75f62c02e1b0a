import type { RealtimeSession, ServerMessage, StateChange, TicketStatus } from "./index.js";

export { connect } from "./index.js";

/**
 * `<realtime-engine src="...">`. Attributes: `src`, the address of the demo; `token` of a server that requires one; `watch`
 * or `join`, the token of an invitation; `transport`, the only one to use; `autoplay`, to start without a click; `title`, shown before
 * the start.
 */
export class RealtimeEngineElement extends HTMLElement {
  /** Values of the demo's fields for the next session. */
  context: Record<string, unknown>;
  /** Seconds to wait in line for a place; by default as long as it takes. */
  queueTimeout: number | undefined;
  /** The session, `null` before it starts. */
  readonly session: RealtimeSession | null;
  /** Starts a session, or starts again after the end. */
  play(): void;
  addEventListener<K extends keyof RealtimeEngineEvents>(
    type: K,
    listener: (event: RealtimeEngineEvents[K]) => void,
    options?: boolean | AddEventListenerOptions,
  ): void;
  addEventListener(
    type: string,
    listener: EventListenerOrEventListenerObject,
    options?: boolean | AddEventListenerOptions,
  ): void;
}

export interface RealtimeEngineEvents {
  state: CustomEvent<StateChange>;
  ticket: CustomEvent<TicketStatus>;
  message: CustomEvent<ServerMessage>;
}

declare global {
  interface HTMLElementTagNameMap {
    "realtime-engine": RealtimeEngineElement;
  }
}
