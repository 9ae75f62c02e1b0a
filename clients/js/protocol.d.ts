/** Messages of the controls protocol, and request bodies of the HTTP API. Written by scripts/js_types.py. */

/** The page lost the focus: all held controls are released. */
export interface BlurMessage {
  v: 1;
  type: "blur";
  seq: number;
}

/** A pointer button was pressed; numbered as `MouseEvent.button`. */
export interface ButtonDown {
  seq: number;
  t?: number | null;
  kind: "button_down";
  button: number;
}

/** A pointer button was released; numbered as `MouseEvent.button`. */
export interface ButtonUp {
  seq: number;
  t?: number | null;
  kind: "button_up";
  button: number;
}

/** Offset of the clocks in milliseconds: client time + `offset` = server time ± `uncertainty`. */
export interface ClockEstimate {
  offset: number;
  uncertainty: number;
}

/** The current state of the devices. Members and `fields` that are left out keep their state. */
export interface ControlsMessage {
  v: 1;
  type: "controls";
  seq: number;
  t?: number | null;
  keys?: Array<string>;
  pointer?: PointerInput;
  gamepad?: GamepadInput | null;
  sticks?: Record<string, [number, number]>;
  fields?: Record<string, JsonValue>;
  edges?: Array<KeyDown | KeyUp | PointerMove | ButtonDown | ButtonUp | Wheel | Tap>;
}

/** The fault; `field` is a dotted path in the message. */
export interface ErrorBody {
  code: "bad_message" | "bad_version" | "unknown_type" | "bad_field" | "too_large" | "not_allowed";
  detail: string;
  field?: string | null;
}

/**
 * A message was refused, or the part of it that `error.field` names, which had no effect.
 *
 * `seq` is that of the message if it could be parsed.
 */
export interface ErrorMessage {
  v: 1;
  type: "error";
  seq?: number | null;
  error: ErrorBody;
}

/**
 * An event of the session.
 *
 * `active` belongs to `active_changed`, `reason` and `code` to `rejected`, `error` and `fatal` to
 * `failed`.
 */
export interface EventMessage {
  v: 1;
  type: "event";
  event: "attached" | "reset_done" | "active_changed" | "finished" | "failed" | "rejected" | "detached";
  epoch: number;
  active?: boolean | null;
  reason?: string | null;
  code?: "full" | "invalid_context" | "model_error" | "not_attached" | "not_released" | "stopping" | null;
  error?: string | null;
  fatal?: boolean | null;
}

/** Identity of a sent frame: chunk `seq`, frame `index` in the chunk, and the newest controls applied to it. */
export interface FrameMessage {
  v: 1;
  type: "frame";
  epoch: number;
  seq: number;
  index: number;
  action_seq?: number | null;
  rtp?: number | null;
}

/** State of a gamepad in the W3C standard mapping. Further axes and buttons are ignored. */
export interface GamepadInput {
  axes?: Array<number>;
  buttons?: Array<number>;
}

/** Values of the model's newest chunk that the demo shows over the picture. */
export interface HudMessage {
  v: 1;
  type: "hud";
  values: Record<string, number>;
}

export type JsonValue = unknown;

/** A key was pressed. */
export interface KeyDown {
  seq: number;
  t?: number | null;
  kind: "key_down";
  code: string;
}

/** A key was released. */
export interface KeyUp {
  seq: number;
  t?: number | null;
  kind: "key_up";
  code: string;
}

/** Requests a pong with the same `seq` and `t`. */
export interface PingMessage {
  v: 1;
  type: "ping";
  seq: number;
  t?: number | null;
}

/** Named values of one stage of a stage graph; the name ends with the unit. */
export interface PipelineStageValues {
  stage: string;
  values: Record<string, number | string | null>;
}

/** State of the pointer; see `PointerState`. Bits of further buttons are ignored. */
export interface PointerInput {
  buttons?: number;
  x?: number;
  y?: number;
}

/** The pointer moved, by CSS pixels. */
export interface PointerMove {
  seq: number;
  t?: number | null;
  kind: "pointer_move";
  dx: number;
  dy: number;
}

/** `server_ns` is the server's monotonic clock. */
export interface PongMessage {
  v: 1;
  type: "pong";
  seq: number;
  t?: number | null;
  server_ns: number;
}

/** Frames that were presented. The message is not a control: it does not extend holds or the idle timeout. */
export interface PresentedMessage {
  v: 1;
  type: "presented";
  seq: number;
  viewer?: string | null;
  clock: ClockEstimate;
  frames: Array<ShownFrame>;
  timing?: boolean;
}

/** A key press: `seq` of the controls message that carried it, and its time. */
export interface Press {
  seq: number;
  t: number;
}

/** What this client may do from now on, after a take-over. */
export interface RoleMessage {
  v: 1;
  type: "role";
  role: "viewer" | "controller" | "owner";
}

/** A frame and its times by the client's clock. Unknown times are left out. */
export interface ShownFrame {
  epoch: number;
  seq: number;
  index: number;
  presented: number;
  received?: number | null;
  decoded?: number | null;
  press?: Press | null;
}

/** Number of frames, and quantiles over the newest ones in milliseconds. */
export interface StageTiming {
  stage: string;
  count: number;
  p50: number;
  p95: number;
  p99: number;
}

/** To the owner: another client asks to take over, or does not ask any more. To that client: the owner refuses. */
export interface TakeoverMessage {
  v: 1;
  type: "takeover";
  state: "asked" | "withdrawn" | "refused";
  member: string;
}

/** A tap or click; `x` and `y` are 0 to 1 from the left and top edge of the picture. */
export interface Tap {
  seq: number;
  t?: number | null;
  kind: "tap";
  x: number;
  y: number;
}

/**
 * Latency of each stage for the session's frames over this client's transport.
 *
 * Attributes:
 *     pipeline: the stages of the model, where it is a stage graph.
 */
export interface TimingMessage {
  v: 1;
  type: "timing";
  transport: string | null;
  stages: Array<StageTiming>;
  pipeline?: Array<PipelineStageValues>;
}

/**
 * When the session's turn ends, because others wait; `null`: it has no end.
 *
 * `reason` is `idle` if the session ends for want of input: any input cancels that.
 */
export interface TurnMessage {
  v: 1;
  type: "turn";
  ends_in_s: number | null;
  reason?: "turn" | "idle";
}

/** The wheel turned, by CSS pixels. */
export interface Wheel {
  seq: number;
  t?: number | null;
  kind: "wheel";
  dx: number;
  dy: number;
}

/** A message of the controls protocol. */
export type Message =
  | ControlsMessage
  | BlurMessage
  | PingMessage
  | PresentedMessage
  | PongMessage
  | ErrorMessage
  | EventMessage
  | FrameMessage
  | TimingMessage
  | TurnMessage
  | RoleMessage
  | TakeoverMessage
  | HudMessage;

/** Whether the session runs. */
export interface ActiveBody {
  active: boolean;
}

/** Whether the owner consents. */
export interface ConsentBody {
  accept: boolean;
}

/** The demo's typed fields with which a session starts or is reset. */
export interface ContextBody {
  context?: Record<string, unknown>;
}

/** The fields of a new session, and the ticket with which its place is claimed. */
export interface CreateBody {
  context?: Record<string, unknown>;
  ticket?: string | null;
}

/** Who may join a session, for how long and how often; `null`: while the session runs, any number of times. */
export interface InvitationBody {
  role?: "viewer" | "controller";
  expires_s?: number | null;
  uses?: number | null;
}

/** The token of an invitation. */
export interface JoinBody {
  token: string;
}

/** The text of a QR code. */
export interface QrBody {
  text: string;
}

/** The routes, and the JSON body of each request: `null` for none. */
export interface Routes {
  "/api/demo": { GET: null };
  "/api/invitations": { POST: JoinBody };
  "/api/lobby": { GET: null };
  "/api/lobby/{session_id}/invitations": { POST: null };
  "/api/lobby/{session_id}/thumbnail.jpg": { GET: null };
  "/api/sessions": { GET: null; POST: CreateBody };
  "/api/sessions/{session_id}": { GET: null; PATCH: ActiveBody; DELETE: null };
  "/api/sessions/{session_id}/actions": { POST: unknown };
  "/api/sessions/{session_id}/frame.jpg": { GET: null };
  "/api/sessions/{session_id}/invitations": { POST: InvitationBody; GET: null };
  "/api/sessions/{session_id}/invitations/{invitation_id}": { DELETE: null };
  "/api/sessions/{session_id}/leave": { POST: null };
  "/api/sessions/{session_id}/qr": { POST: QrBody };
  "/api/sessions/{session_id}/recording": { POST: null; DELETE: null; GET: null };
  "/api/sessions/{session_id}/recording/{name}": { GET: null };
  "/api/sessions/{session_id}/reset": { POST: ContextBody };
  "/api/sessions/{session_id}/stream.mjpeg": { GET: null };
  "/api/sessions/{session_id}/takeover": { POST: null };
  "/api/sessions/{session_id}/takeover/{member_id}": { POST: ConsentBody };
  "/api/sessions/{session_id}/trace": { GET: null };
  "/api/sessions/{session_id}/whep": { POST: null };
  "/api/sessions/{session_id}/whep/{viewer_id}": { PATCH: null; DELETE: null };
  "/api/sessions/{session_id}/whip": { POST: null };
  "/api/sessions/{session_id}/whip/{publisher_id}": { PATCH: null; DELETE: null };
  "/api/tickets/{ticket_id}": { GET: null; DELETE: null };
  "/api/tickets/{ticket_id}/events": { GET: null };
  "/api/trace": { GET: null };
  "/healthz": { GET: null };
  "/metrics": { GET: null };
  "/readyz": { GET: null };
}
