"""Controls: what a demo declares, the state of each client's devices, and the messages of the protocol.

Nothing here knows a transport. The data channel, the WebSocket and REST pass the same text to :class:`ControlGroup`.
"""

from .declaration import HOLD_TIMEOUT_S, Axis, Controls
from .devices import ARROWS_AS_WASD, GamepadState, KeyBinding, PointerState, WheelState
from .group import ControlGroup
from .parsing import MAX_MESSAGE_BYTES
from .schema import (
    PROTOCOL_VERSION,
    FrameInfo,
    error_message,
    event_message,
    frame_message,
    hud_message,
    parse_frame_message,
    protocol_schema,
    role_message,
    takeover_message,
    timing_message,
    turn_message,
)
from .state import ControlState
from .window import ControlWindow

__all__ = [
    "ARROWS_AS_WASD",
    "HOLD_TIMEOUT_S",
    "MAX_MESSAGE_BYTES",
    "PROTOCOL_VERSION",
    "Axis",
    "ControlGroup",
    "ControlState",
    "ControlWindow",
    "Controls",
    "FrameInfo",
    "GamepadState",
    "KeyBinding",
    "PointerState",
    "WheelState",
    "error_message",
    "event_message",
    "frame_message",
    "parse_frame_message",
    "hud_message",
    "protocol_schema",
    "role_message",
    "takeover_message",
    "timing_message",
    "turn_message",
]
