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
 * The messages of the server, as scripts/js_types.py writes them:
 *
 * @typedef {import("../../clients/js/protocol.js").EventMessage} SessionEvent
 * @typedef {import("../../clients/js/protocol.js").FrameMessage} FrameMessage
 * @typedef {import("../../clients/js/protocol.js").StageTiming} StageTiming
 * @typedef {import("../../clients/js/protocol.js").PipelineStageValues} StageStatistics
 * @typedef {import("../../clients/js/protocol.js").TimingMessage} TimingMessage
 * @typedef {import("../../clients/js/protocol.js").TurnMessage} TurnMessage
 * @typedef {import("../../clients/js/protocol.js").RoleMessage} RoleMessage
 * @typedef {import("../../clients/js/protocol.js").TakeoverMessage} TakeoverMessage
 * @typedef {import("../../clients/js/protocol.js").HudMessage} HudMessage
 * @typedef {import("../../clients/js/protocol.js").PongMessage} PongMessage
 * @typedef {import("../../clients/js/protocol.js").ErrorBody} MessageError
 * @typedef {import("../../clients/js/protocol.js").ErrorMessage} ErrorMessage
 * @typedef {PongMessage | ErrorMessage | SessionEvent | FrameMessage | TimingMessage | TurnMessage
 *   | RoleMessage | TakeoverMessage | HudMessage} ServerMessage
 */

export const PROTOCOL_VERSION = 1;
