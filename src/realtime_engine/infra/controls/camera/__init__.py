"""A camera that keys and mouse steer, and what camera-conditioned video models take of it. NumPy only.

Poses are 4x4 camera-to-world matrices, float64. Unless it is said otherwise they are in RDF: x right, y down, z
forward.
"""

from .clock import PlayerClock
from .intrinsics import Intrinsics
from .path import exp_se3, walk_arc
from .rays import plucker_rays
from .rig import DEFAULT_KEYS, CameraRig, CameraSettings, Move
from .systems import CameraSystem, convert_poses, relative_poses
from .timeline import ControlEdge, ControlTimeline, Span

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
