"""A camera in a player's hands: edges in, one pose for each frame out."""

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
    """Which way the axes x, y, z point. All are right-handed; the value says it by initials."""

    RDF = "right, down, forward"
    """OpenCV, COLMAP, and most camera-conditioned video models."""
    FLU = "forward, left, up"
    """ROS (REP 103) and robotics."""
    OPENGL = "right, up, backward"
    """OpenGL, Blender and most NeRF code."""

    @property
    def to_rdf(self) -> NDArray[np.float64]:
        """(3, 3): a vector in this system, times this on its left, is the same vector in RDF. Entries are -1, 0 and
        1.
        """
        return np.array(_TO_RDF[self.name], np.float64)


_TO_RDF = {
    "RDF": ((1, 0, 0), (0, 1, 0), (0, 0, 1)),
    "FLU": ((0, -1, 0), (0, 0, -1), (1, 0, 0)),
    "OPENGL": ((1, 0, 0), (0, -1, 0), (0, 0, -1)),
}


def convert_poses(
    poses: ArrayLike, source: CameraSystem, target: CameraSystem, *, world: bool = True
) -> NDArray[np.float64]:
    """Camera-to-world poses (..., 4, 4) in other axes; exact, since axes are only swapped and reversed.

    Args:
        world: the world's axes change like the camera's. Otherwise the world keeps its own and only the camera's
            change, as between OpenCV and OpenGL cameras of one scene.

    Errors: ``ValueError`` for another shape.
    """
    given = _checked(poses)
    change = np.eye(4)
    change[:3, :3] = target.to_rdf.T @ source.to_rdf
    changed = given @ change.T
    converted: NDArray[np.float64] = change @ changed if world else changed
    return converted


def relative_poses(poses: ArrayLike, reference: ArrayLike) -> NDArray[np.float64]:
    """Poses (..., 4, 4) as the camera at ``reference`` (4, 4) sees them: that one itself becomes the identity."""
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


_SMALL = 1e-4  # radians: below, the series are exact to the last digit


def exp_se3(twist: ArrayLike, seconds: float = 1.0) -> NDArray[np.float64]:
    """The motion (4, 4) of a body that moves by a constant velocity in its own axes.

    ``pose @ exp_se3(twist, seconds)`` is where it is after ``seconds``: the exponential of SE(3), by Rodrigues' formula
    for the rotation and its integral for the translation (Murray, Li and Sastry, A Mathematical Introduction to Robotic
    Manipulation, 1994, section 2.3).

    Args:
        twist: (6,), velocity in units per second, then angular velocity in radians per second.
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
    """(3, 3): axes of an RDF camera that has turned ``yaw`` radians to the right, and then ``pitch`` up."""
    cy, sy, cp, sp = np.cos(yaw), np.sin(yaw), np.cos(pitch), np.sin(pitch)
    return np.array([[cy, sy * sp, sy * cp], [0.0, cp, -sp], [-sy, cy * sp, cy * cp]])


def walk_arc(
    velocity: ArrayLike, yaw: float, pitch: float, yaw_rate: float, pitch_rate: float, seconds: float
) -> NDArray[np.float64]:
    """How far (3,) a camera goes by a constant ``velocity`` in its own axes while it turns at constant rates.

    Yaw turns about the world's vertical and pitch about the camera's own, so the two together are no screw motion. The
    way is the integral of :func:`rotation` times ``velocity``; its products of sines and cosines are sums of those of
    yaw + pitch and yaw - pitch, each of which has a closed form. Without pitch it is the arc of :func:`exp_se3`.

    Args:
        velocity: (3,), right, down and forward, in units per second.
        yaw, pitch: radians at the begin. yaw_rate, pitch_rate: radians per second.
    """
    right, down, forward = np.asarray(velocity, np.float64)
    by_yaw = _swing(yaw, yaw_rate, seconds)
    by_pitch = _swing(pitch, pitch_rate, seconds)
    both = _swing(yaw + pitch, yaw_rate + pitch_rate, seconds)
    apart = _swing(yaw - pitch, yaw_rate - pitch_rate, seconds)
    cos_cos, sin_sin = (apart.real + both.real) / 2, (apart.real - both.real) / 2
    sin_cos, cos_sin = (both.imag + apart.imag) / 2, (both.imag - apart.imag) / 2
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
    """What a key does: axis of motion and sign; 0 to 2 are right, down and forward, 3 is yaw, 4 pitch."""

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
    """How a camera moves.

    Attributes:
        fps: frames per second.
        speed: units per second, in whatever direction keys say together.
        turn_rate: degrees per second, of yaw and of pitch.
        look_rate: degrees for each CSS pixel of the mouse.
        pitch_limit: degrees up or down at most, 90 or less.
        fly: move where the camera looks; otherwise on the level, whatever the pitch.
        keys: key code to what it does.

    Raises:
        ValueError: naming the field.
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
    """Position, yaw and pitch of one player's camera, and the keys that it carries from chunk to chunk.

    It begins at the origin and looks forward. Motion is integrated in closed form, so where it is at a moment does not
    depend on how the time before was cut into chunks or frames.
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
        """Keys that are held on."""
        return self._timeline.held

    @property
    def pose(self) -> NDArray[np.float64]:
        """(4, 4), camera to world in RDF: where the last chunk has left it."""
        pose = np.eye(4)
        pose[:3, :3] = rotation(self._yaw, self._pitch)
        pose[:3, 3] = self._position
        return pose

    def hold(self, codes: Iterable[str]) -> None:
        """Hold these keys and no others from the next chunk's begin on: ``window.keys``, when edges may have been
        lost.
        """
        self._timeline.hold(codes)

    def chunk(
        self,
        edges: Iterable[ControlEdge],
        begin_s: float,
        frames: int,
        system: CameraSystem = CameraSystem.RDF,
    ) -> NDArray[np.float64]:
        """Poses (frames, 4, 4), camera to world in ``system``; frame i is at ``begin_s + (i + 1) / fps``.

        Edges from before ``begin_s`` count from there on, those from after the last frame in the next chunk. With
        ``begin_s`` one chunk before now, players see their motion in its own time; with ``begin_s`` now, at once.
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
        """Go on for a time in which nothing changes but, perhaps, that pitch arrives at its limit."""
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
        """Velocity in the camera's axes, and the rates of yaw and pitch; two keys for one move count once."""
        axes = np.zeros(5)
        for move in {self.settings.keys[code] for code in held if code in self.settings.keys}:
            axis, sign = move.value
            axes[axis] += sign
        length = float(np.linalg.norm(axes[:3]))
        velocity = axes[:3] * (self.settings.speed / length if length else 0.0)
        yaw_rate, pitch_rate = np.radians(self.settings.turn_rate) * axes[3:]
        return velocity, float(yaw_rate), float(pitch_rate)
