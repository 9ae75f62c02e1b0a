from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from realtime_engine.infra.controls.camera import (
    DEFAULT_KEYS,
    CameraRig,
    CameraSettings,
    CameraSystem,
    ControlEdge,
    Move,
    convert_poses,
    exp_se3,
    relative_poses,
    walk_arc,
)
from realtime_engine.infra.controls.camera.pose import rotation

FPS = 16
KEYS = sorted(DEFAULT_KEYS)
EDGES = st.lists(
    st.builds(
        ControlEdge,
        st.integers(-8, 70).map(lambda n: n / 32 + 0.003),
        st.sampled_from([*KEYS, None]),
        st.booleans(),
        st.tuples(st.floats(-200, 200), st.floats(-200, 200)),
    ),
    max_size=10,
).map(lambda edges: [edge if edge.code is None else edge._replace(look=(0.0, 0.0)) for edge in edges])


def rig(*held: str, fps: float = FPS, **given: Any) -> CameraRig:
    made = CameraRig(CameraSettings(fps, **given))
    made.hold(held)
    return made


def pitch_of(pose: NDArray[np.float64]) -> float:
    return math.degrees(math.asin(np.clip(-pose[1, 2], -1, 1)))


# -- closed forms


def test_a_key_walks_at_its_speed_in_units_per_second() -> None:
    poses = rig("KeyW", speed=3.0).chunk([], 0.0, 2 * FPS)
    assert poses.shape == (32, 4, 4)
    np.testing.assert_allclose(poses[:, :3, 3], [(0, 0, 3 * (i + 1) / FPS) for i in range(32)], atol=1e-12)
    np.testing.assert_array_equal(poses[:, :3, :3], np.tile(np.eye(3), (32, 1, 1)))


def test_two_keys_are_no_faster_than_one_and_opposite_ones_stand_still() -> None:
    both = rig("KeyW", "KeyD").chunk([], 0.0, FPS)[-1]
    np.testing.assert_allclose(both[:3, 3], [math.sqrt(0.5), 0, math.sqrt(0.5)])
    np.testing.assert_array_equal(rig("KeyW", "KeyS").chunk([], 0.0, FPS)[-1], np.eye(4))


@pytest.mark.parametrize("fly", [False, True])
def test_a_circle_that_is_walked_closes(fly: bool) -> None:
    around = rig("KeyW", "ArrowRight", speed=2.0, turn_rate=90.0, fly=fly)
    poses = around.chunk([], 0.0, 4 * FPS)
    np.testing.assert_allclose(poses[-1], np.eye(4), atol=1e-12)
    radius = 2.0 / math.radians(90)
    center = np.array([radius, 0, 0])
    np.testing.assert_allclose(np.linalg.norm(poses[:, :3, 3] - center, axis=1), radius, atol=1e-12)


def test_a_key_counts_from_its_press_to_its_release_between_frames_too() -> None:
    edges = [ControlEdge(0.1, "KeyD", True), ControlEdge(0.35, "KeyD", False)]
    poses = rig(speed=4.0).chunk(edges, 0.0, FPS)
    times = (np.arange(FPS) + 1) / FPS
    np.testing.assert_allclose(poses[:, 0, 3], 4 * np.clip(times - 0.1, 0, 0.25), atol=1e-12)


def test_the_mouse_turns_right_and_up_by_degrees_for_each_pixel() -> None:
    pose = rig(look_rate=0.5).chunk([ControlEdge(0.5, look=(60.0, -40.0))], 0.0, FPS)
    np.testing.assert_array_equal(pose[6], np.eye(4))
    np.testing.assert_allclose(pose[-1, :3, :3], rotation(math.radians(30), math.radians(20)), atol=1e-12)


def test_pitch_stops_at_its_limit_and_turns_back_from_there() -> None:
    up = rig("ArrowUp", turn_rate=60.0, pitch_limit=50.0)
    assert [pitch_of(pose) for pose in up.chunk([], 0.0, 2 * FPS)[[7, 15, 31]]] == pytest.approx([30, 50, 50])
    up.hold(["ArrowDown"])
    assert pitch_of(up.chunk([], 2.0, FPS)[-1]) == pytest.approx(-10)
    thrown = rig(pitch_limit=50.0).chunk([ControlEdge(0.0, look=(0.0, 1e5))], 0.0, 1)
    assert pitch_of(thrown[-1]) == pytest.approx(-50)


def test_walking_stays_on_the_level_and_flying_goes_where_it_looks() -> None:
    look = [ControlEdge(0.0, look=(0.0, -300.0))]  # 30 degrees up
    walked = rig("KeyW").chunk(look, 0.0, FPS)[-1]
    flown = rig("KeyW", fly=True).chunk(look, 0.0, FPS)[-1]
    np.testing.assert_allclose(walked[:3, 3], [0, 0, 1], atol=1e-12)
    np.testing.assert_allclose(flown[:3, 3], [0, -0.5, math.sqrt(0.75)], atol=1e-12)


@pytest.mark.parametrize("system", CameraSystem)
def test_poses_come_in_the_system_that_is_asked_for(system: CameraSystem) -> None:
    keys = ("KeyW", "ArrowLeft", "ArrowUp")
    plain = rig(*keys, fly=True).chunk([], 0.0, 5)
    asked = rig(*keys, fly=True).chunk([], 0.0, 5, system)
    np.testing.assert_array_equal(asked, convert_poses(plain, CameraSystem.RDF, system))


# -- properties


def slow_poses(edges: list[ControlEdge], frames: int, settings: CameraSettings) -> NDArray[np.float64]:
    """Steps of a 960th of a second with what is held in the middle of each."""
    steps = 60
    dt = 1 / settings.fps / steps
    ordered = sorted(edges, key=lambda edge: edge.at_s)
    position, yaw, pitch, limit = np.zeros(3), 0.0, 0.0, math.radians(settings.pitch_limit)
    held: set[str] = set()
    poses = []
    for step in range(frames * steps):
        while ordered and ordered[0].at_s < (step + 0.5) * dt:
            edge = ordered.pop(0)
            if edge.code is not None:
                (held.add if edge.down else held.discard)(edge.code)
            yaw += math.radians(settings.look_rate) * edge.look[0]
            pitch = float(np.clip(pitch - math.radians(settings.look_rate) * edge.look[1], -limit, limit))
        moves = {DEFAULT_KEYS[code] for code in held}

        def axis(plus: Move, minus: Move, moves: set[Move] = moves) -> int:
            return (plus in moves) - (minus in moves)

        going = np.array([axis(Move.RIGHT, Move.LEFT), 0, axis(Move.FORWARD, Move.BACK)], float)
        going *= settings.speed / max(np.linalg.norm(going), 1e-9)
        turn = math.radians(settings.turn_rate) * dt
        yaw += turn / 2 * axis(Move.TURN_RIGHT, Move.TURN_LEFT)
        position = position + rotation(yaw, pitch if settings.fly else 0.0) @ going * dt
        yaw += turn / 2 * axis(Move.TURN_RIGHT, Move.TURN_LEFT)
        pitch = float(np.clip(pitch + turn * axis(Move.LOOK_UP, Move.LOOK_DOWN), -limit, limit))
        if (step + 1) % steps == 0:
            pose = np.eye(4)
            pose[:3, :3], pose[:3, 3] = rotation(yaw, pitch), position
            poses.append(pose)
    return np.stack(poses)


@given(EDGES, st.booleans())
def test_the_way_is_that_of_many_small_steps(edges: list[ControlEdge], fly: bool) -> None:
    chosen = CameraSettings(FPS, speed=1.5, turn_rate=80.0, pitch_limit=40.0, fly=fly)
    frames = 20
    exact = CameraRig(chosen).chunk(edges, 0.0, frames)
    edge_error = 0.02 * (len(edges) + 1)  # each edge is up to half a small step off in the slow way
    np.testing.assert_allclose(exact, slow_poses(edges, frames, chosen), atol=edge_error)


@given(EDGES, st.integers(1, 31), st.booleans())
def test_how_time_is_cut_into_chunks_does_not_matter(edges: list[ControlEdge], cut: int, fly: bool) -> None:
    whole = rig(pitch_limit=30.0, fly=fly).chunk(edges, 0.0, 32)
    parts = rig(pitch_limit=30.0, fly=fly)
    halves = [parts.chunk(edges, 0.0, cut), parts.chunk([], cut / FPS, 32 - cut)]
    np.testing.assert_allclose(np.concatenate(halves), whole, atol=1e-9)


@given(EDGES)
def test_how_many_frames_are_taken_does_not_matter(edges: list[ControlEdge]) -> None:
    fine = rig(fps=4 * FPS, fly=True).chunk(edges, 0.0, 64)
    coarse = rig(fps=FPS, fly=True).chunk(edges, 0.0, 16)
    np.testing.assert_allclose(fine[3::4], coarse, atol=1e-9)


@given(EDGES)
def test_poses_are_rigid_and_upright(edges: list[ControlEdge]) -> None:
    poses = rig(pitch_limit=60.0, fly=True).chunk(edges, 0.0, 24)
    turned = poses[:, :3, :3]
    np.testing.assert_allclose(turned @ turned.transpose(0, 2, 1), np.tile(np.eye(3), (24, 1, 1)), atol=1e-12)
    np.testing.assert_allclose(np.linalg.det(turned), 1, atol=1e-12)
    np.testing.assert_array_equal(poses[:, 3], np.tile([0, 0, 0, 1], (24, 1)))
    assert (turned[:, 1, 0] == 0).all(), "the camera's right stays level"
    assert all(abs(pitch_of(pose)) <= 60 + 1e-6 for pose in poses)


# -- the rest


def test_keys_are_carried_and_late_edges_cost_no_frame() -> None:
    walker = rig(speed=1.0)
    walker.chunk([ControlEdge(0.5, "KeyW", True)], 0.0, FPS)
    assert walker.held == {"KeyW"}
    pose = walker.chunk([ControlEdge(0.9, "KeyW", False)], 1.0, FPS)[-1]
    np.testing.assert_allclose(pose[:3, 3], [0, 0, 0.5])
    np.testing.assert_array_equal(walker.pose, pose)


def test_keys_that_mean_nothing_are_left_alone() -> None:
    np.testing.assert_array_equal(rig("Space").chunk([], 0.0, 1)[0], np.eye(4))


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"fps": 0}, "fps must be above 0"),
        ({"fps": 30, "speed": -1}, "speed must be a number of 0 or more, got -1"),
        ({"fps": 30, "turn_rate": float("nan")}, "turn_rate"),
        ({"fps": 30, "pitch_limit": 91}, "from 0 to 90 degrees, got 91"),
    ],
)
def test_settings_that_are_wrong_are_named(given: dict[str, Any], told: str) -> None:
    with pytest.raises(ValueError, match=told):
        CameraSettings(**given)


def test_a_chunk_without_frames_is_refused() -> None:
    with pytest.raises(ValueError, match="1 frame or more, got 0"):
        rig().chunk([], 0.0, 0)


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
