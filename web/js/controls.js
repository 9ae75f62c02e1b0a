/** @import { GamepadState, PointerState } from "./protocol.js" */
/** @import { Input } from "./input.js" */

/**
 * Bits of `MouseEvent.buttons`, by the number of the button in `MouseEvent.button`.
 */
const BUTTON_BITS = [1, 4, 2, 8, 16];

/**
 * A change of the controls by a program. Each given device replaces its state; omitted devices keep theirs.
 *
 * @typedef {object} ControlsUpdate
 * @property {string[]} [keys] codes of all held keys; presses and releases follow from the difference
 * @property {Partial<PointerState>} [pointer]
 * @property {GamepadState | null} [gamepad]
 * @property {Record<string, [number, number]>} [sticks]
 * @property {Record<string, unknown>} [fields]
 * @property {EdgeUpdate[]} [edges]
 *
 * @typedef {{ kind: "pointer_move" | "wheel", dx: number, dy: number } | { kind: "tap", x: number, y: number }} EdgeUpdate
 */

/**
 * Applies a change to the input, which sends it.
 *
 * @param {Input} input
 * @param {ControlsUpdate} update
 */
export function applyControls(input, { keys, pointer, gamepad, sticks = {}, fields = {}, edges = [] }) {
  const time = performance.now();
  if (keys) {
    for (const code of input.keys.filter((held) => !keys.includes(held))) input.release(code, time);
    for (const code of keys) input.press(code, time);
  }
  if (pointer) applyPointer(input, pointer, time);
  if (gamepad !== undefined) input.setGamepad(gamepad);
  for (const [name, [x, y]] of Object.entries(sticks)) input.setStick(name, x, y);
  for (const [name, value] of Object.entries(fields)) input.setField(name, value);
  for (const edge of edges) {
    if (edge.kind === "tap") input.tap(edge.x, edge.y, time);
    else if (edge.kind === "wheel") input.wheel(edge.dx, edge.dy, time);
    else input.movePointer(edge.dx, edge.dy, time);
  }
}

/**
 * @param {Input} input
 * @param {Partial<PointerState>} pointer
 * @param {number} time
 */
function applyPointer(input, { x = input.pointer.x, y = input.pointer.y, buttons = input.pointer.buttons }, time) {
  input.setPointer(x, y);
  for (const [button, bit] of BUTTON_BITS.entries()) {
    const held = input.pointer.buttons;
    if ((held & bit) !== (buttons & bit)) input.setButton(button, Boolean(buttons & bit), held ^ bit, time);
  }
}
