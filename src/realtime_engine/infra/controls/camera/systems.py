"""Coordinate systems of cameras, and poses taken from one to another."""

from __future__ import annotations

import enum

import numpy as np
from numpy.typing import ArrayLike, NDArray


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
