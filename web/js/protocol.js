/**
 * Version and message types of the controls protocol (docs/protocol.md).
 *
 * @typedef {{ seq: number, t: number }} EdgeHeader number and time of an edge
 *
 * @typedef {{ kind: "key_down" | "key_up", code: string }
 *   | { kind: "pointer_move" | "wheel", dx: number, dy: number }
 *   | { kind: "button_down" | "button_up", button: number }
 *   | { kind: "tap", x: number, y: number }} EdgeBody
 *
 * @typedef {EdgeHeader & EdgeBody} Edge
 *
 * @typedef {object} PointerState
 * @property {number} buttons as in `MouseEvent.buttons`
 * @property {number} x 0 to 1, from the left edge of the video
 * @property {number} y 0 to 1, from the top edge of the video
 *
 * @typedef {object} GamepadState in the W3C standard mapping
 * @property {number[]} axes each -1 to 1
 * @property {number[]} buttons each 0 to 1
 *
 * @typedef {object} InputState body of a `controls` message
 * @property {string[]} keys
 * @property {PointerState} pointer
 * @property {GamepadState | null} gamepad
 * @property {Record<string, [number, number]>} sticks
 * @property {Record<string, unknown>} fields
 * @property {Edge[]} edges
 *
 * @typedef {object} PresentedFrame times in milliseconds of `performance.now()`
 * @property {number} epoch
 * @property {number} seq
 * @property {number} index
 * @property {number} presented
 * @property {number} [received]
 * @property {number} [decoded]
 * @property {{ seq: number, t: number }} [press] the oldest key press that this frame is the first to show
 *
 * @typedef {object} Presented body of a `presented` message
 * @property {string | null} viewer name of the connection, null for MJPEG
 * @property {{ offset: number, uncertainty: number }} clock
 * @property {boolean} timing whether to reply with a `timing` message
 * @property {PresentedFrame[]} frames
 *
 * @typedef {object} SessionEvent
 * @property {"event"} type
 * @property {"attached" | "reset_done" | "active_changed" | "rejected" | "failed" | "finished" | "detached"} event
 * @property {number} epoch
 * @property {boolean} [active] for `active_changed`
 * @property {string} [reason] for `rejected`
 * @property {"full" | "invalid_context" | "model_error" | "not_attached" | "not_released" | "stopping"} [code] for
 *   `rejected`
 * @property {string} [error] for `failed`
 * @property {boolean} [fatal] for `failed`
 *
 * @typedef {object} FrameMessage
 * @property {"frame"} type
 * @property {number} epoch
 * @property {number} seq
 * @property {number} index
 * @property {number | null} action_seq
 * @property {number | null} rtp
 *
 * @typedef {{ stage: string, p50: number, p95: number }} StageTiming quantiles in milliseconds
 * @typedef {{ stage: string, values: Record<string, number | string | null> }} StageStatistics
 *
 * @typedef {object} TimingMessage
 * @property {"timing"} type
 * @property {StageTiming[]} stages of the way from a key press to the screen
 * @property {StageStatistics[]} [pipeline] named values of each stage of the model, where it is a stage graph
 *
 * @typedef {{ type: "turn", ends_in_s: number | null, reason: "turn" | "idle" }} TurnMessage
 * @typedef {{ type: "role", role: import("./api.js").Role }} RoleMessage
 * @typedef {{ type: "takeover", state: "asked" | "withdrawn" | "refused", member: string }} TakeoverMessage
 * @typedef {{ type: "hud", values: Record<string, number> }} HudMessage
 * @typedef {{ type: "pong", t: number, server_ns: number }} PongMessage
 * @typedef {{ code: string, detail: string, field: string | null }} MessageError
 * @typedef {{ type: "error", error: MessageError }} ErrorMessage
 * @typedef {PongMessage | ErrorMessage | SessionEvent | FrameMessage | TimingMessage | TurnMessage
 *   | RoleMessage | TakeoverMessage | HudMessage} ServerMessage
 */

export const PROTOCOL_VERSION = 1;
