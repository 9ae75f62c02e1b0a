"""Camera poses: coordinate systems, rigid motions, and a camera rig driven by edges."""

from __future__ import annotations

import enum
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .timeline import ControlEdge, ControlTimeline


class CameraSystem(enum.Enum):
    """Directions of the axes x, y and z. All systems are right-handed."""

    RDF = "right, down, forward"
    """OpenCV, COLMAP, and most camera-conditioned video models."""
    FLU = "forward, left, up"
    """ROS (REP 103) and robotics."""
    OPENGL = "right, up, backward"
    """OpenGL, Blender and most NeRF code."""

    @property
    def to_rdf(self) -> NDArray[np.float64]:
        """Rotation matrix (3, 3) from this system to RDF; its entries are -1, 0 and 1."""
        return np.array(_TO_RDF[self.name], np.float64)


_TO_RDF = {
    "RDF": ((1, 0, 0), (0, 1, 0), (0, 0, 1)),
    "FLU": ((0, -1, 0), (0, 0, -1), (1, 0, 0)),
    "OPENGL": ((1, 0, 0), (0, -1, 0), (0, 0, -1)),
}


def convert_poses(
    poses: ArrayLike, source: CameraSystem, target: CameraSystem, *, world: bool = True
) -> NDArray[np.float64]:
    """Convert camera-to-world poses (..., 4, 4) to another system. Exact: axes are only swapped and negated.

    Args:
        poses: poses in ``source``.
        source: system of the given poses.
        target: system of the returned poses.
        world: also convert the axes of the world. False converts the axes of the camera only, as between OpenCV and
            OpenGL cameras of one scene.

    Raises:
        ValueError: the poses have another shape.
    """
    given = _checked(poses)
    change = np.eye(4)
    change[:3, :3] = target.to_rdf.T @ source.to_rdf
    changed = given @ change.T
    converted: NDArray[np.float64] = change @ changed if world else changed
    return converted


def relative_poses(poses: ArrayLike, reference: ArrayLike) -> NDArray[np.float64]:
    """Poses (..., 4, 4) relative to ``reference`` (4, 4), which itself maps to the identity."""
    given, origin = _checked(poses), _checked(reference)
    back = np.eye(4)
    back[:3, :3] = origin[:3, :3].T
    back[:3, 3] = -origin[:3, :3].T @ origin[:3, 3]
    return back @ given


def _checked(poses: ArrayLike) -> NDArray[np.float64]:
    given = np.asarray(poses, np.float64)
    if given.shape[-2:] != (4, 4):
        raise ValueError(f"poses have shape (..., 4, 4), got {given.shape}")
    return given


_SMALL = 1e-4  # radians; below, the series are exact in float64


def exp_se3(twist: ArrayLike, seconds: float = 1.0) -> NDArray[np.float64]:
    """The motion (4, 4) of a body with a constant velocity in its own axes: the exponential map of SE(3).

    ``pose @ exp_se3(twist, seconds)`` is the pose after ``seconds``. The rotation is Rodrigues' formula and the
    translation its integral (Murray, Li and Sastry, A Mathematical Introduction to Robotic Manipulation, 1994,
    section 2.3).

    Args:
        twist: (6,), velocity in units per second, then angular velocity in radians per second.
        seconds: duration of the motion.

    Raises:
        ValueError: the twist has another shape.
    """
    moved = np.asarray(twist, np.float64)
    if moved.shape != (6,):
        raise ValueError(f"a twist has shape (6,): velocity, then angular velocity; got {moved.shape}")
    v, w = moved[:3] * seconds, moved[3:] * seconds
    angle = float(np.linalg.norm(w))
    cross = np.array([[0, -w[2], w[1]], [w[2], 0, -w[0]], [-w[1], w[0], 0]])
    if angle < _SMALL:
        a, b, c = 1 - angle**2 / 6, 0.5 - angle**2 / 24, 1 / 6 - angle**2 / 120
    else:
        a, b = np.sin(angle) / angle, 2 * (np.sin(angle / 2) / angle) ** 2
        c = (1 - a) / angle**2
    square = cross @ cross
    motion = np.eye(4)
    motion[:3, :3] += a * cross + b * square
    motion[:3, 3] = (np.eye(3) + b * cross + c * square) @ v
    return motion


def rotation(yaw: float, pitch: float) -> NDArray[np.float64]:
    """Rotation (3, 3) of an RDF camera turned right by ``yaw`` and then up by ``pitch``, in radians."""
    cy, sy, cp, sp = np.cos(yaw), np.sin(yaw), np.cos(pitch), np.sin(pitch)
    return np.array([[cy, sy * sp, sy * cp], [0.0, cp, -sp], [-sy, cy * sp, cy * cp]])


def walk_arc(
    velocity: ArrayLike, yaw: float, pitch: float, yaw_rate: float, pitch_rate: float, seconds: float
) -> NDArray[np.float64]:
    """The displacement (3,) of a camera with a constant velocity in its own axes that turns at constant rates.

    Yaw turns around the vertical of the world and pitch around the horizontal axis of the camera, so the motion is not
    a screw motion. The displacement is the integral of :func:`rotation` times ``velocity``. Its products of sines and
    cosines are sums of those of yaw + pitch and yaw - pitch, whose integrals have a closed form. With a constant pitch
    of 0 it equals the arc of :func:`exp_se3`.

    Args:
        velocity: (3,), right, down and forward, in units per second.
        yaw: radians at the start.
        pitch: radians at the start.
        yaw_rate: radians per second.
        pitch_rate: radians per second.
        seconds: duration of the motion.
    """
    right, down, forward = np.asarray(velocity, np.float64)
    by_yaw = _swing(yaw, yaw_rate, seconds)
    by_pitch = _swing(pitch, pitch_rate, seconds)
    plus = _swing(yaw + pitch, yaw_rate + pitch_rate, seconds)
    minus = _swing(yaw - pitch, yaw_rate - pitch_rate, seconds)
    cos_cos, sin_sin = (minus.real + plus.real) / 2, (minus.real - plus.real) / 2
    sin_cos, cos_sin = (plus.imag + minus.imag) / 2, (plus.imag - minus.imag) / 2
    return np.array(
        [
            by_yaw.real * right + sin_sin * down + sin_cos * forward,
            by_pitch.real * down - by_pitch.imag * forward,
            -by_yaw.imag * right + cos_sin * down + cos_cos * forward,
        ]
    )


def _swing(angle: float, rate: float, seconds: float) -> complex:
    """The integral of ``exp(i (angle + rate t))`` over ``seconds``."""
    half = rate * seconds / 2
    return complex(seconds * np.exp(1j * (angle + half)) * np.sinc(half / np.pi))


class Move(enum.Enum):
    """The effect of a key: axis and sign. Axes 0 to 2 are right, down and forward, 3 is yaw, 4 is pitch."""

    RIGHT = (0, 1)
    LEFT = (0, -1)
    DOWN = (1, 1)
    UP = (1, -1)
    FORWARD = (2, 1)
    BACK = (2, -1)
    TURN_RIGHT = (3, 1)
    TURN_LEFT = (3, -1)
    LOOK_UP = (4, 1)
    LOOK_DOWN = (4, -1)


DEFAULT_KEYS: Mapping[str, Move] = MappingProxyType(
    {
        "KeyW": Move.FORWARD,
        "KeyS": Move.BACK,
        "KeyA": Move.LEFT,
        "KeyD": Move.RIGHT,
        "ArrowLeft": Move.TURN_LEFT,
        "ArrowRight": Move.TURN_RIGHT,
        "ArrowUp": Move.LOOK_UP,
        "ArrowDown": Move.LOOK_DOWN,
    }
)


@dataclass(frozen=True)
class CameraSettings:
    """Speeds and keys of a camera.

    Attributes:
        fps: frames per second.
        speed: units per second in the combined direction of all held keys.
        turn_rate: degrees per second of yaw and pitch.
        look_rate: degrees for each CSS pixel of pointer movement.
        pitch_limit: maximum pitch up and down in degrees, at most 90.
        fly: move in the viewing direction; otherwise horizontally, regardless of the pitch.
        keys: key code -> effect.

    Raises:
        ValueError: a field is invalid; the message names it.
    """

    fps: float
    speed: float = 1.0
    turn_rate: float = 90.0
    look_rate: float = 0.1
    pitch_limit: float = 85.0
    fly: bool = False
    keys: Mapping[str, Move] = field(default_factory=lambda: DEFAULT_KEYS)

    def __post_init__(self) -> None:
        if not (math.isfinite(self.fps) and self.fps > 0):
            raise ValueError(f"fps must be above 0 frames per second, got {self.fps!r}")
        for name in ("speed", "turn_rate", "look_rate"):
            value = getattr(self, name)
            if not (math.isfinite(value) and value >= 0):
                raise ValueError(f"{name} must be a number of 0 or more, got {value!r}")
        if not 0 <= self.pitch_limit <= 90:
            raise ValueError(f"pitch_limit must be from 0 to 90 degrees, got {self.pitch_limit!r}")


class CameraRig:
    """Position, yaw and pitch of the camera of one session. Held keys persist from chunk to chunk.

    The camera starts at the origin and looks forward. Motion is integrated in closed form, so a pose does not depend
    on the division of time into chunks and frames.
    """

    def __init__(self, settings: CameraSettings) -> None:
        self.settings = settings
        self._timeline = ControlTimeline()
        self._position = np.zeros(3)
        self._yaw = 0.0
        self._pitch = 0.0
        self._limit = math.radians(settings.pitch_limit)

    @property
    def held(self) -> frozenset[str]:
        """Keys held at the end of the last chunk."""
        return self._timeline.held

    @property
    def pose(self) -> NDArray[np.float64]:
        """Camera-to-world pose (4, 4) in RDF at the end of the last chunk."""
        pose = np.eye(4)
        pose[:3, :3] = rotation(self._yaw, self._pitch)
        pose[:3, 3] = self._position
        return pose

    def hold(self, codes: Iterable[str]) -> None:
        """Replace the held keys from the start of the next chunk, with ``window.keys`` if edges may have been lost."""
        self._timeline.hold(codes)

    def chunk(
        self,
        edges: Iterable[ControlEdge],
        begin_s: float,
        frames: int,
        system: CameraSystem = CameraSystem.RDF,
    ) -> NDArray[np.float64]:
        """Camera-to-world poses (frames, 4, 4) in ``system``; frame i is at ``begin_s + (i + 1) / fps``.

        Edges from before ``begin_s`` take effect at ``begin_s``; edges from after the last frame take effect in the
        next chunk. With ``begin_s`` one chunk in the past, motion keeps its timing; with ``begin_s`` at the present,
        it takes effect sooner.

        Raises:
            ValueError: ``frames`` is below 1.
        """
        if frames < 1:
            raise ValueError(f"a chunk has 1 frame or more, got {frames!r}")
        moments = [(frame + 1) / self.settings.fps for frame in range(frames)]
        poses = np.empty((frames, 4, 4))
        done = 0
        for span in self._timeline.chunk(edges, begin_s, moments[-1]):
            self._look(span.look)
            now_s = span.begin_s
            while done < frames and moments[done] <= span.end_s:
                self._move(span.held, moments[done] - now_s)
                now_s = moments[done]
                poses[done] = self.pose
                done += 1
            self._move(span.held, span.end_s - now_s)
        return convert_poses(poses, CameraSystem.RDF, system)

    def _look(self, look: tuple[float, float]) -> None:
        rate = math.radians(self.settings.look_rate)
        self._yaw += rate * look[0]
        self._pitch = min(max(self._pitch - rate * look[1], -self._limit), self._limit)

    def _move(self, held: Iterable[str], seconds: float) -> None:
        """Advance with constant keys. The pitch may reach its limit on the way."""
        velocity, yaw_rate, pitch_rate = self._velocities(held)
        room = self._limit - self._pitch if pitch_rate > 0 else self._pitch + self._limit
        turning_s = min(seconds, room / abs(pitch_rate)) if pitch_rate else 0.0
        self._go(velocity, yaw_rate, pitch_rate, turning_s)
        self._pitch = min(max(self._pitch, -self._limit), self._limit)
        self._go(velocity, yaw_rate, 0.0, seconds - turning_s)

    def _go(self, velocity: NDArray[np.float64], yaw_rate: float, pitch_rate: float, seconds: float) -> None:
        fly = self.settings.fly
        pitch, along = (self._pitch, pitch_rate) if fly else (0.0, 0.0)
        self._position = self._position + walk_arc(velocity, self._yaw, pitch, yaw_rate, along, seconds)
        self._yaw += yaw_rate * seconds
        self._pitch += pitch_rate * seconds

    def _velocities(self, held: Iterable[str]) -> tuple[NDArray[np.float64], float, float]:
        """Velocity in the camera's axes, and the rates of yaw and pitch. Two keys with the same effect count once."""
        axes = np.zeros(5)
        for move in {self.settings.keys[code] for code in held if code in self.settings.keys}:
            axis, sign = move.value
            axes[axis] += sign
        length = float(np.linalg.norm(axes[:3]))
        velocity = axes[:3] * (self.settings.speed / length if length else 0.0)
        yaw_rate, pitch_rate = np.radians(self.settings.turn_rate) * axes[3:]
        return velocity, float(yaw_rate), float(pitch_rate)
