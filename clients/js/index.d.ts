import type {
  ErrorMessage,
  EventMessage,
  FrameMessage,
  GamepadInput,
  HudMessage,
  PointerInput,
  PongMessage,
  RoleMessage,
  TakeoverMessage,
  TimingMessage,
  TurnMessage,
} from "./protocol.js";

export type * from "./protocol.js";

export type Transport = "webrtc" | "webcodecs" | "mjpeg";

/** What the server sends besides video. */
export type ServerMessage =
  | PongMessage
  | ErrorMessage
  | EventMessage
  | FrameMessage
  | TimingMessage
  | TurnMessage
  | RoleMessage
  | TakeoverMessage
  | HudMessage;

export interface ConnectOptions {
  /** Values of the demo's fields. */
  context?: Record<string, unknown>;
  /** Token of a server that requires one. */
  token?: string | null;
  /** Token of an invitation, to watch another user's session. */
  watch?: string | null;
  /** Token of an invitation, to control another user's session together. */
  join?: string | null;
  /** The only transport to use; by default the best one. */
  transport?: Transport | null;
  /** Seconds to wait in line for a place, 0 not to wait; by default as long as it takes. */
  queueTimeout?: number;
}

/** A change of the controls. Each given device replaces its state; omitted devices keep theirs. */
export interface ControlsUpdate {
  /** Codes of all held keys (`KeyboardEvent.code`); presses and releases follow from the difference. */
  keys?: string[];
  pointer?: PointerInput;
  gamepad?: Required<GamepadInput> | null;
  /** Each -1 to 1, right and down positive. */
  sticks?: Record<string, [number, number]>;
  fields?: Record<string, unknown>;
  edges?: EdgeUpdate[];
}

export type EdgeUpdate =
  | { kind: "pointer_move" | "wheel"; dx: number; dy: number }
  | { kind: "tap"; x: number; y: number };

export interface StateChange {
  state: "loading" | "connecting" | "waiting" | "live" | "finished" | "reconnecting" | "ended";
  /** Why, for the user. */
  text: string;
  /** Of loading the model, 0 to 1; `null` if unknown. */
  progress?: number | null;
}

/** A place in the waiting line. */
export interface TicketStatus {
  state: "waiting" | "reserved" | "claimed" | "left" | "expired" | "absent";
  /** From 1 on. */
  position: number;
  estimated_wait_s: number;
  /** Of a reserved place. */
  claim_within_s?: number;
}

/** Answer to `GET /api/demo`, of which docs/http.md lists all members. */
export interface Demo {
  name: string;
  title: string;
  description?: string;
  video: { width: number | null; height: number | null };
  controls: {
    keys: { code: string; label: string; group?: string }[];
    pointer: "lock" | "position" | null;
    wheel: boolean;
    gamepad: boolean;
    sticks: string[];
    defaults: Record<string, unknown>;
  };
  required_context: string[];
  transports: Transport[];
}

export interface SessionEvents {
  state: StateChange;
  /** The description of the demo, once its model is loaded. */
  demo: Demo;
  /** While the user waits in line. */
  ticket: TicketStatus;
  /** Seconds until the user's turn ends, `null` if it has no end; whether it ends for want of input. */
  turn: { seconds: number | null; isIdle: boolean };
  message: ServerMessage;
}

/** A session on a server. */
export interface RealtimeSession {
  /** Element that shows the video: put it into the page. Its size is set by CSS. */
  readonly element: HTMLElement;
  /** The element inside that shows the video now, by the transport in use. */
  readonly media: HTMLVideoElement | HTMLCanvasElement | HTMLImageElement;
  /** Resolves with the first picture; rejects if the session ends before. */
  readonly ready: Promise<unknown>;
  readonly state: StateChange;
  readonly demo: Demo | null;
  /** Whether another user's session is shown, and not controlled. */
  readonly isWatching: boolean;
  on<K extends keyof SessionEvents>(type: K, listener: (detail: SessionEvents[K]) => void): void;
  /** Changes the controls. What is held stays held until a later call releases it. */
  sendControls(update: ControlsUpdate): void;
  /** Releases everything that is held. */
  releaseControls(): void;
  /** Restarts the session; resolves when no older frame follows. */
  reset(context?: Record<string, unknown>): Promise<void>;
  /** Pauses or resumes the session. */
  setActive(active: boolean): Promise<void>;
  /** Leaves the waiting line. */
  leaveLine(): void;
  /** Starts again after the end. */
  start(): void;
  /** Ends the session, for good. */
  close(): void;
}

/**
 * Starts a session of a demo. The server lists the origin of the page with `--allowed-origin`.
 *
 * @param url of the demo; `?watch=`, `?join=`, `?token=` and `?transport=` in it count as options
 * @throws {TypeError} the URL is invalid
 */
export function connect(url: string | URL, options?: ConnectOptions): RealtimeSession;
