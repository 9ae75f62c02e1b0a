import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from realtime_engine.infra.controls import GamepadState
from realtime_engine.infra.controls.gamepad import read_gamepad, without_dead_zone

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
