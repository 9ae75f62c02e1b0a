from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from realtime_engine.infra.controls.camera import exp_se3, walk_arc
from realtime_engine.infra.controls.camera.path import rotation

rate = st.floats(-4, 4)
angle = st.floats(-7, 7)
velocity = st.tuples(rate, rate, rate)
seconds = st.floats(0, 3)


def slow_exp(twist: NDArray[np.float64], seconds: float) -> NDArray[np.float64]:
    """The power series."""
    vx, vy, vz, wx, wy, wz = twist * seconds
    generator = np.array([[0, -wz, wy, vx], [wz, 0, -wx, vy], [-wy, wx, 0, vz], [0, 0, 0, 0]])
    total, term = np.eye(4), np.eye(4)
    for n in range(1, 80):
        term = term @ generator / n
        total = total + term
    return total


@given(velocity, velocity, seconds)
def test_the_exponential_is_its_power_series(v: tuple[float, ...], w: tuple[float, ...], seconds: float) -> None:
    twist = np.array([*v, *w])
    np.testing.assert_allclose(exp_se3(twist, seconds), slow_exp(twist, seconds), atol=1e-6)


@pytest.mark.parametrize("size", [0.0, 1e-9, 9e-5, 1.1e-4])
def test_the_exponential_of_hardly_any_turn_is_as_exact(size: float) -> None:
    twist = np.array([1, -2, 3, size, size, -size])
    np.testing.assert_allclose(exp_se3(twist), slow_exp(twist, 1.0), atol=1e-13)


@given(velocity, velocity, seconds)
def test_half_a_motion_twice_is_the_motion(v: tuple[float, ...], w: tuple[float, ...], seconds: float) -> None:
    half = exp_se3((*v, *w), seconds / 2)
    np.testing.assert_allclose(half @ half, exp_se3((*v, *w), seconds), atol=1e-9)
    np.testing.assert_allclose(half[:3, :3] @ half[:3, :3].T, np.eye(3), atol=1e-12)


def test_a_twist_of_another_shape_is_refused() -> None:
    with pytest.raises(ValueError, match=r"\(6,\).*got \(3,\)"):
        exp_se3([1, 2, 3])


@given(velocity, angle, angle, rate, rate, seconds)
def test_the_arc_is_the_sum_of_many_small_steps(
    v: tuple[float, ...], yaw: float, pitch: float, yaw_rate: float, pitch_rate: float, seconds: float
) -> None:
    steps = 400
    walked = np.zeros(3)
    for middle in (np.arange(steps) + 0.5) / steps * seconds:  # the midpoint rule: second order
        walked += rotation(yaw + yaw_rate * middle, pitch + pitch_rate * middle) @ v * seconds / steps
    np.testing.assert_allclose(walk_arc(v, yaw, pitch, yaw_rate, pitch_rate, seconds), walked, atol=2e-3)


@given(velocity, rate, seconds)
def test_without_pitch_the_arc_is_that_of_the_exponential(v: tuple[float, ...], yaw: float, seconds: float) -> None:
    motion = exp_se3((*v, 0, yaw, 0), seconds)
    np.testing.assert_allclose(walk_arc(v, 0, 0, yaw, 0, seconds), motion[:3, 3], atol=1e-9)
    np.testing.assert_allclose(rotation(yaw * seconds, 0), motion[:3, :3], atol=1e-9)


def test_yaw_turns_right_and_pitch_up() -> None:
    forward = np.array([0, 0, 1])
    np.testing.assert_allclose(rotation(np.pi / 2, 0) @ forward, [1, 0, 0], atol=1e-15)
    np.testing.assert_allclose(rotation(0, np.pi / 2) @ forward, [0, -1, 0], atol=1e-15)
