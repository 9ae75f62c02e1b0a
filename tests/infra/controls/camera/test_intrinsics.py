from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from realtime_engine.infra.controls.camera import Intrinsics, exp_se3, plucker_rays

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
    np.testing.assert_allclose(resized.normalized, CAMERA.normalized)
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


RAYS_CAMERA = Intrinsics(7, 5, 6.0, 5.5, 3.2, 2.4)
twists = st.lists(st.floats(-2, 2), min_size=6, max_size=6)


def slow_rays(pose: NDArray[np.float64]) -> NDArray[np.float64]:
    rays = np.zeros((5, 7, 6))
    for y in range(5):
        for x in range(7):
            seen = np.linalg.inv(RAYS_CAMERA.matrix) @ [x + 0.5, y + 0.5, 1]
            direction = pose[:3, :3] @ seen
            direction = direction / np.linalg.norm(direction)
            rays[y, x] = [*np.cross(pose[:3, 3], direction), *direction]
    return rays


@given(twists)
def test_the_rays_are_those_of_the_pixels_one_by_one(twist: list[float]) -> None:
    poses = np.stack([exp_se3(twist), np.eye(4)])
    rays = plucker_rays(poses, RAYS_CAMERA)
    assert rays.shape == (2, 5, 7, 6) and rays.dtype == np.float32
    np.testing.assert_allclose(rays, np.stack([slow_rays(pose) for pose in poses]), atol=1e-5)


@given(twists)
def test_they_are_lines(twist: list[float]) -> None:
    rays = plucker_rays(exp_se3(twist), RAYS_CAMERA)
    moment, direction = rays[..., :3], rays[..., 3:]
    np.testing.assert_allclose(np.linalg.norm(direction, axis=-1), 1, atol=1e-5)
    np.testing.assert_allclose((moment * direction).sum(-1), 0, atol=1e-4)


def test_a_ray_is_the_same_from_wherever_on_it() -> None:
    camera = Intrinsics(1, 1, 1.0, 1.0, 0.5, 0.5)  # one pixel, straight ahead
    near, far = exp_se3([1, 2, 3, 0, 0, 0]), exp_se3([1, 2, 50, 0, 0, 0])
    np.testing.assert_array_equal(plucker_rays(near, camera), plucker_rays(far, camera))
    np.testing.assert_array_equal(plucker_rays(near, camera)[0, 0], [2, -1, 0, 0, 0, 1])


def test_the_direction_can_come_first() -> None:
    pose = exp_se3([1, 2, 3, 0.1, 0.2, 0.3])
    swapped = plucker_rays(pose, RAYS_CAMERA, order="direction_moment")
    np.testing.assert_array_equal(np.roll(swapped, 3, -1), plucker_rays(pose, RAYS_CAMERA))


def test_rays_what_is_wrong_is_named() -> None:
    with pytest.raises(ValueError, match=r"got \(3, 3\)"):
        plucker_rays(np.eye(3), RAYS_CAMERA)
    with pytest.raises(ValueError, match="order must be"):
        plucker_rays(np.eye(4), RAYS_CAMERA, order="sideways")  # type: ignore[arg-type]
