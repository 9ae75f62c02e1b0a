import pytest

from realtime_engine.infra.controls import PointerState
from realtime_engine.infra.controls.pointer import held_buttons


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
