from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from realtime_engine.infra.controls.camera import Intrinsics

sides = st.integers(1, 2000)
CAMERA = Intrinsics(640, 360, 500.0, 520.0, 300.0, 190.0)
POINT = np.array([0.4, -0.3, 2.0])


def project(camera: Intrinsics) -> np.ndarray:
    x, y, z = camera.matrix @ POINT
    return np.array([x / z, y / z])


@given(sides, sides, st.floats(1, 170))
def test_the_field_of_view_that_was_asked_for(width: int, height: int, degrees: float) -> None:
    assert Intrinsics.from_fov(width, height, horizontal=degrees).horizontal_fov == pytest.approx(degrees)
    assert Intrinsics.from_fov(width, height, vertical=degrees).vertical_fov == pytest.approx(degrees)


def test_90_degrees_are_half_the_width() -> None:
    camera = Intrinsics.from_fov(640, 360, horizontal=90)
    assert (camera.fx, camera.fy, camera.cx, camera.cy) == pytest.approx((320, 320, 320, 180))
    assert camera.vertical_fov == pytest.approx(2 * np.degrees(np.arctan(180 / 320)))


@given(sides, sides)
def test_a_point_moves_with_the_picture_that_is_resized(width: int, height: int) -> None:
    resized = CAMERA.resized(width, height)
    np.testing.assert_allclose(project(resized), project(CAMERA) * [width / 640, height / 360])
    np.testing.assert_allclose(resized.normalised, CAMERA.normalised)
    assert resized.horizontal_fov == pytest.approx(CAMERA.horizontal_fov)


def test_a_point_moves_with_the_picture_that_is_cropped() -> None:
    np.testing.assert_allclose(project(CAMERA.cropped(20, -10, 100, 50)), project(CAMERA) - [20, -10])


@given(sides, sides)
def test_the_middle_stays_the_middle_of_what_is_resized_and_cropped(width: int, height: int) -> None:
    centred = Intrinsics(640, 360, 500.0, 500.0, 320.0, 180.0).resized_and_cropped(width, height)
    assert (centred.cx, centred.cy) == pytest.approx((width / 2, height / 2))
    assert centred.fx == centred.fy == pytest.approx(500 * max(width / 640, height / 360))


def test_what_is_wrong_is_named() -> None:
    with pytest.raises(ValueError, match="either horizontal or vertical"):
        Intrinsics.from_fov(640, 360)
    with pytest.raises(ValueError, match="either horizontal or vertical"):
        Intrinsics.from_fov(640, 360, horizontal=60, vertical=40)
    with pytest.raises(ValueError, match="below 180 degrees, got 180"):
        Intrinsics.from_fov(640, 360, horizontal=180)
    with pytest.raises(ValueError, match="fx must be above 0"):
        Intrinsics(640, 360, 0.0, 1.0, 0.0, 0.0)
    with pytest.raises(ValueError, match="cx and cy"):
        Intrinsics(640, 360, 1.0, 1.0, float("nan"), 0.0)
