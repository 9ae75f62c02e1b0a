"""Cameras controlled by keys and mouse: poses, intrinsics and rays for camera-conditioned video models. NumPy only.

Poses are 4x4 camera-to-world matrices, float64, in RDF coordinates (x right, y down, z forward) unless stated
otherwise.
"""

from .intrinsics import Intrinsics, plucker_rays
from .pose import (
    DEFAULT_KEYS,
    CameraRig,
    CameraSettings,
    CameraSystem,
    Move,
    convert_poses,
    exp_se3,
    relative_poses,
    walk_arc,
)
from .timeline import ControlEdge, ControlTimeline, PlayerClock, Span

__all__ = [
    "DEFAULT_KEYS",
    "CameraRig",
    "CameraSettings",
    "CameraSystem",
    "ControlEdge",
    "ControlTimeline",
    "Intrinsics",
    "Move",
    "PlayerClock",
    "Span",
    "convert_poses",
    "exp_se3",
    "plucker_rays",
    "relative_poses",
    "walk_arc",
]
