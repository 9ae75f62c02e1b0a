from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from realtime_engine.infra.controls.camera import CameraSystem, convert_poses, exp_se3, relative_poses

twists = st.lists(st.floats(-3, 3), min_size=6, max_size=6)
pairs = list(itertools.permutations(CameraSystem, 2))
WORDS = {
    "right": (1, 0, 0),
    "left": (-1, 0, 0),
    "down": (0, 1, 0),
    "up": (0, -1, 0),
    "forward": (0, 0, 1),
    "backward": (0, 0, -1),
}


@pytest.mark.parametrize("system", CameraSystem)
def test_the_axes_are_those_of_the_name_and_right_handed(system: CameraSystem) -> None:
    assert [tuple(axis) for axis in system.to_rdf.T] == [WORDS[word] for word in system.value.split(", ")]
    assert np.linalg.det(system.to_rdf) == pytest.approx(1)


@given(twists, st.sampled_from(pairs), st.booleans())
def test_there_and_back_is_the_same_to_the_bit(
    twist: list[float], pair: tuple[CameraSystem, CameraSystem], world: bool
) -> None:
    source, target = pair
    poses = np.stack([exp_se3(twist), np.eye(4)])
    there = convert_poses(poses, source, target, world=world)
    np.testing.assert_array_equal(convert_poses(there, target, source, world=world), poses)
    np.testing.assert_allclose(there[0, :3, :3] @ there[0, :3, :3].T, np.eye(3), atol=1e-12)
    assert np.linalg.det(there[0, :3, :3]) == pytest.approx(1)


@given(twists, st.sampled_from(pairs))
def test_a_point_that_the_camera_sees_is_the_same_point(
    twist: list[float], pair: tuple[CameraSystem, CameraSystem]
) -> None:
    source, target = pair
    change = target.to_rdf.T @ source.to_rdf
    seen = np.array([0.3, -2, 5])
    pose = exp_se3(twist)
    in_world = pose[:3, :3] @ seen + pose[:3, 3]
    both = convert_poses(pose, source, target)
    np.testing.assert_allclose(both[:3, :3] @ (change @ seen) + both[:3, 3], change @ in_world, atol=1e-9)
    only = convert_poses(pose, source, target, world=False)
    np.testing.assert_allclose(only[:3, :3] @ (change @ seen) + only[:3, 3], in_world, atol=1e-9)


def test_a_step_forward_in_each_system() -> None:
    pose = exp_se3([1, 2, 3, 0, 0, 0])  # right, down, forward
    flu = convert_poses(pose, CameraSystem.RDF, CameraSystem.FLU)
    gl = convert_poses(pose, CameraSystem.RDF, CameraSystem.OPENGL)
    assert flu[:3, 3].tolist() == [3, -1, -2]
    assert gl[:3, 3].tolist() == [1, -2, -3]


@given(twists, twists)
def test_the_reference_becomes_the_origin(first: list[float], second: list[float]) -> None:
    poses = np.stack([exp_se3(first), exp_se3(second)])
    seen: NDArray[np.float64] = relative_poses(poses, poses[0])
    np.testing.assert_allclose(seen[0], np.eye(4), atol=1e-9)
    np.testing.assert_allclose(seen[1], np.linalg.inv(poses[0]) @ poses[1], atol=1e-9)


def test_other_shapes_are_refused() -> None:
    with pytest.raises(ValueError, match=r"\(\.\.\., 4, 4\), got \(3, 4\)"):
        convert_poses(np.eye(4)[:3], CameraSystem.RDF, CameraSystem.FLU)
