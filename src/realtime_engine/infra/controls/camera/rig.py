"""A camera in a player's hands: edges in, one pose for each frame out."""

from __future__ import annotations

import enum
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from .path import rotation, walk_arc
from .systems import CameraSystem, convert_poses
from .timeline import ControlEdge, ControlTimeline


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
