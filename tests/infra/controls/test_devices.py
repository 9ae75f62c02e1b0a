from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from realtime_engine.infra.controls import ARROWS_AS_WASD, Axis, Controls, GamepadState, KeyBinding, PointerState
from realtime_engine.infra.controls.devices import (
    check_code,
    held_buttons,
    last_press_wins,
    read_gamepad,
    resolve_codes,
    without_dead_zone,
)

deflection = st.floats(-1.5, 1.5)


@given(deflection, deflection, st.floats(0.0, 0.9))
def test_the_dead_zone_is_radial_and_rescaled(x, y, zone):
    length = math.hypot(x, y)
    out_x, out_y = without_dead_zone(x, y, zone)
    expected = min(max((length - zone) / (1 - zone), 0.0), 1.0)
    assert math.hypot(out_x, out_y) == pytest.approx(expected, abs=1e-9)
    assert out_x * y == pytest.approx(out_y * x, abs=1e-9)  # same direction ...
    assert out_x * x >= 0 and out_y * y >= 0  # ... and not the opposite one


def test_the_ends_of_the_way_stay_where_they_are():
    assert without_dead_zone(0.0, 0.0, 0.0) == (0.0, 0.0)
    assert without_dead_zone(0.0, -1.0, 0.2) == (0.0, -1.0)
    assert without_dead_zone(0.1, 0.1, 0.2) == (0.0, 0.0)


def test_two_axes_of_one_stick_share_a_dead_zone_and_a_lone_axis_has_its_own():
    pad = read_gamepad([0.6, 0.15, 0.0, 0.05, 0.15, 0.6], [], 0.2)
    assert pad.axes[:2] == pytest.approx(without_dead_zone(0.6, 0.15, 0.2))
    assert pad.axes[1] > 0
    assert pad.axes[2:] == pytest.approx((0.0, 0.0, 0.0, 0.5))


def test_an_odd_number_of_axes_is_read_to_the_end():
    assert read_gamepad([1.0, 0.0, -1.0], [], 0.1).axes == (1.0, 0.0, -1.0)


def test_values_are_clamped():
    pad = read_gamepad([3.0, 0.0], [-1.0, 2.0], 0.1)
    assert pad == GamepadState((1.0, 0.0), (0.0, 1.0))


def test_what_a_gamepad_does_not_have_rests():
    pad = GamepadState((0.5,), (0.49, 0.5))
    assert (pad.axis(0), pad.axis(1), pad.axis(-1)) == (0.5, 0.0, 0.0)
    assert [pad.pressed(index) for index in (-1, 0, 1, 2)] == [False, False, True, False]


WASD = frozenset({"KeyW", "KeyA", "KeyS", "KeyD"})
held_keys = st.lists(st.sampled_from(sorted(WASD)), unique=True).map(tuple)


@pytest.mark.parametrize("code", ["", "w w", "Key-W", "K" * 33, "KeyW\n", 87, None])
def test_a_binding_refuses_what_is_no_code(code):
    with pytest.raises(ValueError, match="code must be a KeyboardEvent.code"):
        KeyBinding(code, "Forward")


@pytest.mark.parametrize("field", ["label", "group"])
def test_a_binding_names_the_text_that_is_none(field):
    with pytest.raises(ValueError, match=f"{field} must be text, got 7"):
        KeyBinding("KeyW", **{"label": "Forward", field: 7})


def test_undeclared_keys_are_left_out():
    assert resolve_codes(["KeyQ", "KeyW", "Enter"], WASD, {}) == ("KeyW",)


def test_an_arrow_stands_for_its_letter():
    assert resolve_codes(["ArrowUp", "ArrowLeft"], WASD, ARROWS_AS_WASD) == ("KeyW", "KeyA")


def test_a_key_held_under_two_names_stands_at_its_newest_press():
    assert resolve_codes(["KeyW", "KeyS", "ArrowUp"], WASD, ARROWS_AS_WASD) == ("KeyS", "KeyW")


def test_the_newest_of_two_opposing_keys_counts_and_the_older_comes_back():
    groups = [("KeyW", "KeyS")]
    assert last_press_wins(("KeyW", "KeyD", "KeyS"), groups) == ("KeyD", "KeyS")
    assert last_press_wins(("KeyW", "KeyD"), groups) == ("KeyW", "KeyD")


def test_a_key_in_two_groups_must_win_in_both():
    assert last_press_wins(("KeyA", "KeyW", "KeyS"), [("KeyA", "KeyW"), ("KeyW", "KeyS")]) == ("KeyS",)


@given(held_keys, st.lists(st.lists(st.sampled_from(sorted(WASD)), min_size=2, unique=True), max_size=3))
def test_a_key_counts_unless_a_later_one_shares_a_group(held, groups):
    def overruled(place):
        return any(held[place] in group and later in group for group in groups for later in held[place + 1 :])

    assert last_press_wins(held, groups) == tuple(code for place, code in enumerate(held) if not overruled(place))


@pytest.mark.parametrize(
    ("buttons", "numbers"), [(0, ()), (1, (0,)), (2, (2,)), (4, (1,)), (8, (3,)), (16, (4,)), (7, (0, 2, 1))]
)
def test_bits_are_named_by_the_numbers_of_mouse_events(buttons, numbers):
    assert held_buttons(buttons) == numbers


def test_pressed_asks_by_number():
    secondary = PointerState(buttons=2)
    assert secondary.pressed(2)
    assert not secondary.pressed(1)
    assert not secondary.pressed(99)


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
