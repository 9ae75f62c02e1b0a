from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from realtime_engine.infra.controls.camera import Intrinsics, exp_se3, plucker_rays

CAMERA = Intrinsics(7, 5, 6.0, 5.5, 3.2, 2.4)
twists = st.lists(st.floats(-2, 2), min_size=6, max_size=6)


def slow_rays(pose: NDArray[np.float64]) -> NDArray[np.float64]:
    rays = np.zeros((5, 7, 6))
    for y in range(5):
        for x in range(7):
            seen = np.linalg.inv(CAMERA.matrix) @ [x + 0.5, y + 0.5, 1]
            direction = pose[:3, :3] @ seen
            direction = direction / np.linalg.norm(direction)
            rays[y, x] = [*np.cross(pose[:3, 3], direction), *direction]
    return rays


@given(twists)
def test_the_rays_are_those_of_the_pixels_one_by_one(twist: list[float]) -> None:
    poses = np.stack([exp_se3(twist), np.eye(4)])
    rays = plucker_rays(poses, CAMERA)
    assert rays.shape == (2, 5, 7, 6) and rays.dtype == np.float32
    np.testing.assert_allclose(rays, np.stack([slow_rays(pose) for pose in poses]), atol=1e-5)


@given(twists)
def test_they_are_lines(twist: list[float]) -> None:
    rays = plucker_rays(exp_se3(twist), CAMERA)
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
    swapped = plucker_rays(pose, CAMERA, order="direction_moment")
    np.testing.assert_array_equal(np.roll(swapped, 3, -1), plucker_rays(pose, CAMERA))


def test_what_is_wrong_is_named() -> None:
    with pytest.raises(ValueError, match=r"got \(3, 3\)"):
        plucker_rays(np.eye(3), CAMERA)
    with pytest.raises(ValueError, match="order must be"):
        plucker_rays(np.eye(4), CAMERA, order="sideways")  # type: ignore[arg-type]
