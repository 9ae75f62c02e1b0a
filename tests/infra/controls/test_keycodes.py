"""A key goes by its ``KeyboardEvent.code``, and by nothing else."""

from __future__ import annotations

import pytest

from realtime_engine.infra.controls import Axis, Controls, KeyBinding
from realtime_engine.infra.controls.keycodes import check_code


@pytest.mark.parametrize(
    "code",
    ["KeyA", "KeyZ", "Digit0", "ArrowUp", "Numpad9", "NumpadEnter", "F1", "F24", "Space", "Enter", "ShiftLeft"]
    + ["ControlRight", "AltLeft", "MetaRight", "BracketLeft", "Semicolon", "PageDown", "IntlRo", "Escape", "NumLock"],
)
def test_keys_of_the_standard_are_taken(code: str) -> None:
    check_code("code", code)


@pytest.mark.parametrize("code", ["F0", "F25", "Keya", "KeyÄ", "Numpad", "Arrow", "Shift", "", "keyw", None, 87])
def test_others_are_refused(code: object) -> None:
    with pytest.raises(ValueError, match=r"^code must be a KeyboardEvent.code such as 'KeyW'"):
        check_code("code", code)


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("W", "KeyW"),
        ("w", "KeyW"),
        ("keyw", "KeyW"),
        ("1", "Digit1"),
        ("up", "ArrowUp"),
        ("ArowUp", "ArrowUp"),
        ("space", "Space"),
        (" ", "Space"),
        ("Shift", "ShiftLeft"),
        ("esc", "Escape"),
    ],
)
def test_the_key_that_was_meant_is_named(given: str, meant: str) -> None:
    with pytest.raises(ValueError, match=rf"did you mean '{meant}'"):
        KeyBinding(given, "up")


def test_what_is_like_nothing_gets_no_guess() -> None:
    with pytest.raises(ValueError, match=r"got 'Zzzzzz'$"):
        check_code("code", "Zzzzzz")


def test_aliases_and_axes_are_checked_too() -> None:
    with pytest.raises(ValueError, match=r"aliases must be .* did you mean 'ArrowUp'"):
        Controls(keys=(KeyBinding("KeyW", "up"),), aliases={"ArowUp": "KeyW"})
    with pytest.raises(ValueError, match=r"axis 'side': key must be .* did you mean 'KeyA'"):
        Axis("side", negative="A", positive="KeyD")
