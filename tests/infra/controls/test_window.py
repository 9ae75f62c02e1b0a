from dataclasses import FrozenInstanceError
from types import MappingProxyType

import pytest
from pydantic import BaseModel

from realtime_engine.infra.controls import Axis, Controls, ControlWindow, GamepadState, KeyBinding

CONTROLS = Controls(
    keys=tuple(KeyBinding(code, code) for code in ("KeyW", "KeyS", "KeyA", "KeyD")),
    aliases={"ArrowUp": "KeyW", "ArrowDown": "KeyS"},
    axes=(
        Axis("forward", "KeyS", "KeyW", stick=("move", "y"), gamepad=1, invert=True),
        Axis("turn", stick=("look", "x"), gamepad=2),
    ),
    sticks=("move", "look"),
    gamepad=True,
)


def window(**given):
    return ControlWindow(CONTROLS, **given)


def test_held_answers_for_keys_and_aliases():
    held = window(keys=("KeyW",))
    assert held.held("KeyW") and held.held("ArrowUp")
    assert not held.held("KeyS") and not held.held("ArrowDown")


def test_an_undeclared_key_is_an_error_of_the_demo():
    with pytest.raises(ValueError, match="held: key 'KeyQ' is not declared in keys; did you mean"):
        window().held("KeyQ")
    with pytest.raises(ValueError, match="key 'KeyQ' is not declared"):
        window().axis("KeyQ", "KeyW")


def test_an_undeclared_axis_is_an_error_of_the_demo():
    with pytest.raises(ValueError, match="axis 'foward' is not declared in axes; did you mean 'forward'"):
        window().axis("foward")


@pytest.mark.parametrize(("keys", "value"), [((), 0.0), (("KeyW",), 1.0), (("KeyS",), -1.0), (("KeyW", "KeyS"), 0.0)])
def test_keys_push_an_axis_to_its_ends(keys, value):
    held = window(keys=keys)
    assert held.axis("forward") == held.axis("KeyS", "KeyW") == held.axis("ArrowDown", "ArrowUp") == value


def test_stick_and_gamepad_push_an_axis_the_other_way_when_inverted():
    assert window(sticks=MappingProxyType({"move": (0.0, -0.5)})).axis("forward") == 0.5
    assert window(gamepad=GamepadState((0.0, -0.25, 0.75))).axis("forward") == 0.25
    assert window(gamepad=GamepadState((0.0, -0.25, 0.75))).axis("turn") == 0.75


def test_devices_add_up_and_are_clamped():
    both = window(keys=("KeyW",), sticks={"move": (0.0, 0.5)}, gamepad=GamepadState((0.0, 0.25)))
    assert both.axis("forward") == 0.25
    assert window(keys=("KeyW",), sticks={"move": (0.0, -0.5)}).axis("forward") == 1.0


def test_two_keys_without_a_declared_axis_use_the_keys_alone():
    held = window(keys=("KeyD",), sticks={"move": (1.0, 1.0)})
    assert held.axis("KeyA", "KeyD") == 1.0
    assert held.axis("KeyD", "KeyA") == -1.0


def test_fields_are_there_as_a_dict():
    class Fields(BaseModel):
        prompt: str = "ice"

    assert window().field_values == {}
    assert window(fields=Fields()).field_values == {"prompt": "ice"}


def test_a_window_cannot_be_changed():
    with pytest.raises(FrozenInstanceError):
        window().keys = ("KeyW",)
