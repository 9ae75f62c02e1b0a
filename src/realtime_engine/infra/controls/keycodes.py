"""The names of the physical keys: ``KeyboardEvent.code`` values of the W3C recommendation *UI Events code Values*."""

from __future__ import annotations

import difflib
import string

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
_STARTS = ("", "key", "digit", "arrow")  # of what people leave out: "W", "1", "up"
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
    """Raise ValueError, naming ``field`` and the nearest that there is, unless ``code`` is one of :data:`KEY_CODES`."""
    if isinstance(code, str) and code in KEY_CODES:
        return
    near = _near(code) if isinstance(code, str) else []
    hint = f"; did you mean {' or '.join(map(repr, near))}?" if near else ""
    raise ValueError(f"{field} must be a KeyboardEvent.code such as 'KeyW' or 'ArrowUp', got {code!r}{hint}")


def _near(word: str) -> list[str]:
    lower = word.lower()
    if lower in _FULL_NAMES:
        return [_FULL_NAMES[lower]]
    named = [_BY_LOWER[start + lower] for start in _STARTS if start + lower in _BY_LOWER]
    close = difflib.get_close_matches(lower, _BY_LOWER, n=2, cutoff=0.75)
    return named[:1] or [_BY_LOWER[match] for match in close]
