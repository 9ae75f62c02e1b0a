"""Input devices: keys, pointer, wheel, gamepads and touch sticks."""

from __future__ import annotations

import difflib
import math
import string
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal, TypeAlias

_STICKS = ((0, 1), (2, 3))  # pairs of axes of the W3C standard gamepad that form a stick


@dataclass(frozen=True)
class GamepadState:
    """A gamepad in the W3C standard mapping.

    Attributes:
        axes: -1 to 1, right and down positive, after the dead zone.
        buttons: 0 (released) to 1 (pressed).
    """

    axes: tuple[float, ...] = ()
    buttons: tuple[float, ...] = ()

    def axis(self, index: int) -> float:
        """Value of an axis; 0 if the gamepad does not have it."""
        return self.axes[index] if 0 <= index < len(self.axes) else 0.0

    def pressed(self, index: int) -> bool:
        """Whether a button is pressed at least halfway; false if the gamepad does not have it."""
        return 0 <= index < len(self.buttons) and self.buttons[index] >= 0.5


def clamp(value: float, minimum: float, maximum: float) -> float:
    """``value``, limited to the range from ``minimum`` to ``maximum``."""
    return min(max(value, minimum), maximum)


def without_dead_zone(x: float, y: float, dead_zone: float) -> tuple[float, float]:
    """Rescale a stick's deflection radially: 0 inside ``dead_zone``, 1 at the rim and beyond. The direction is kept."""
    length = math.hypot(x, y)
    if length <= dead_zone or length == 0.0:
        return 0.0, 0.0
    scale = min((length - dead_zone) / (1.0 - dead_zone), 1.0) / length
    return x * scale, y * scale


def read_gamepad(axes: Sequence[float], buttons: Sequence[float], dead_zone: float) -> GamepadState:
    """The state of a gamepad from the values that a client reports, clamped.

    Axes 0 and 1 share a radial dead zone, and so do axes 2 and 3.
    """
    values = [clamp(value, -1.0, 1.0) for value in axes]
    paired = [pair for pair in _STICKS if pair[1] < len(values)]
    for x, y in paired:
        values[x], values[y] = without_dead_zone(values[x], values[y], dead_zone)
    for index in range(2 * len(paired), len(values)):
        values[index], _ = without_dead_zone(values[index], 0.0, dead_zone)
    return GamepadState(tuple(values), tuple(clamp(value, 0.0, 1.0) for value in buttons))


_PLAIN = """
    Backquote Backslash BracketLeft BracketRight Comma Equal IntlBackslash IntlRo IntlYen Minus Period Quote
    Semicolon Slash AltLeft AltRight Backspace CapsLock ContextMenu ControlLeft ControlRight Enter MetaLeft MetaRight
    ShiftLeft ShiftRight Space Tab Convert KanaMode Lang1 Lang2 Lang3 Lang4 Lang5 NonConvert
    Delete End Help Home Insert PageDown PageUp ArrowDown ArrowLeft ArrowRight ArrowUp
    Escape Fn FnLock PrintScreen ScrollLock Pause NumLock
    Eject LaunchApp1 LaunchApp2 LaunchMail Power Sleep WakeUp
""".split()
_NUMPAD = """
    Add Backspace Clear ClearEntry Comma Decimal Divide Enter Equal Hash MemoryAdd MemoryClear MemoryRecall MemoryStore
    MemorySubtract Multiply ParenLeft ParenRight Star Subtract
""".split()
_FAMILIES = {
    "Key": string.ascii_uppercase,
    "Digit": string.digits,
    "Numpad": [*string.digits, *_NUMPAD],
    "F": range(1, 25),
    "Browser": "Back Favorites Forward Home Refresh Search Stop".split(),
    "Media": "PlayPause Select Stop TrackNext TrackPrevious".split(),
    "AudioVolume": "Down Mute Up".split(),
}
KEY_CODES = frozenset(_PLAIN) | {f"{family}{member}" for family, members in _FAMILIES.items() for member in members}
_BY_LOWER = {code.lower(): code for code in sorted(KEY_CODES)}
_PREFIXES = ("", "key", "digit", "arrow")  # commonly left out: "W", "1", "up"
_FULL_NAMES = {
    " ": "Space",
    "esc": "Escape",
    "return": "Enter",
    "shift": "ShiftLeft",
    "ctrl": "ControlLeft",
    "control": "ControlLeft",
    "alt": "AltLeft",
    "meta": "MetaLeft",
}


def check_code(field: str, code: object) -> None:
    """Check that ``code`` is one of :data:`KEY_CODES`.

    Raises:
        ValueError: it is not; the message names ``field`` and the closest code.
    """
    if isinstance(code, str) and code in KEY_CODES:
        return
    near = _near(code) if isinstance(code, str) else []
    hint = f"; did you mean {' or '.join(map(repr, near))}?" if near else ""
    raise ValueError(f"{field} must be a KeyboardEvent.code such as 'KeyW' or 'ArrowUp', got {code!r}{hint}")


def _near(word: str) -> list[str]:
    lower = word.lower()
    if lower in _FULL_NAMES:
        return [_FULL_NAMES[lower]]
    named = [_BY_LOWER[prefix + lower] for prefix in _PREFIXES if prefix + lower in _BY_LOWER]
    close = difflib.get_close_matches(lower, _BY_LOWER, n=2, cutoff=0.75)
    return named[:1] or [_BY_LOWER[match] for match in close]


CODE_PATTERN = r"^[A-Za-z0-9]{1,32}$"
ARROWS_AS_WASD: Mapping[str, str] = MappingProxyType(
    {"ArrowUp": "KeyW", "ArrowLeft": "KeyA", "ArrowDown": "KeyS", "ArrowRight": "KeyD"}
)


@dataclass(frozen=True)
class KeyBinding:
    """A key that a demo reads, and its line in the legend.

    Attributes:
        code: the physical key, a ``KeyboardEvent.code`` of the W3C UI Events specification: ``KeyW`` is the key left
            of ``KeyE`` on every layout.
        label: what the key does, as shown in the legend.
        group: heading under which the legend lists the key.

    Raises:
        ValueError: a field is invalid; the message names it.
    """

    code: str
    label: str
    group: str = ""

    def __post_init__(self) -> None:
        check_code("code", self.code)
        for name in ("label", "group"):
            value = getattr(self, name)
            if not isinstance(value, str):
                raise ValueError(f"{name} must be text, got {value!r}")


def resolve_codes(codes: Iterable[str], declared: Collection[str], aliases: Mapping[str, str]) -> tuple[str, ...]:
    """The declared keys among ``codes`` (oldest press first), with aliases resolved.

    A key that is held under two codes takes the place of its newest press.
    """
    newest_last: dict[str, None] = {}
    for code in codes:
        resolved = aliases.get(code, code)
        if resolved in declared:
            newest_last.pop(resolved, None)
            newest_last[resolved] = None
    return tuple(newest_last)


def last_press_wins(held: tuple[str, ...], opposing: Iterable[Collection[str]]) -> tuple[str, ...]:
    """``held`` (oldest press first) without the keys overruled by a later press in the same opposing group."""
    overruled: set[str] = set()
    for group in opposing:
        overruled.update([code for code in held if code in group][:-1])
    return tuple(code for code in held if code not in overruled)


PointerUse: TypeAlias = Literal["position", "lock"]
POINTER_USES: tuple[PointerUse, ...] = ("position", "lock")


@dataclass(frozen=True)
class PointerState:
    """Position, buttons and accumulated movement of the pointer.

    Attributes:
        x, y: position in the picture, 0 to 1 from its left and top edge.
        buttons: held buttons, as the bits of ``MouseEvent.buttons``: 1 primary, 2 secondary, 4 middle, 8 back,
            16 forward.
        travel_x, travel_y: sum of all ``pointer_move`` edges in CSS pixels, right and down positive. The difference
            between two windows is the movement between them, so skipping a window loses nothing.
    """

    x: float = 0.5
    y: float = 0.5
    buttons: int = 0
    travel_x: float = 0.0
    travel_y: float = 0.0

    def pressed(self, button: int) -> bool:
        """Whether a button is held, by its number in ``MouseEvent.button``: 0 primary, 1 middle, 2 secondary."""
        return button in held_buttons(self.buttons)


@dataclass(frozen=True)
class WheelState:
    """Accumulated movement of the wheel.

    Attributes:
        travel_x, travel_y: sum of all ``wheel`` edges in CSS pixels, right and down positive.
    """

    travel_x: float = 0.0
    travel_y: float = 0.0


_BUTTON_OF_BIT = (0, 2, 1, 3, 4)  # MouseEvent.buttons orders secondary before middle, MouseEvent.button after it
MAX_BUTTONS = (1 << len(_BUTTON_OF_BIT)) - 1


def held_buttons(buttons: int) -> tuple[int, ...]:
    """Numbers (``MouseEvent.button``) of the bits that are set in ``MouseEvent.buttons``."""
    return tuple(number for bit, number in enumerate(_BUTTON_OF_BIT) if buttons >> bit & 1)
