"""Plücker coordinates of the rays that a picture is made of."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .intrinsics import Intrinsics


def plucker_rays(
    poses: ArrayLike,
    intrinsics: Intrinsics,
    *,
    order: Literal["moment_direction", "direction_moment"] = "moment_direction",
) -> NDArray[np.float32]:
    """The ray of each pixel's centre, (..., height, width, 6) float32, for RDF poses (..., 4, 4), camera to world.

    A ray through o with unit direction d is the line (o x d, d): wherever on the line o is chosen, these six numbers
    are the same (Plücker, 1865; as the input of generative models: Sitzmann et al., Light Field Networks, 2021; He et
    al., CameraCtrl, 2024, has the moment first).

    Errors: ``ValueError`` for poses of another shape or an unknown order.
    """
    given = np.asarray(poses, np.float64)
    if given.shape[-2:] != (4, 4):
        raise ValueError(f"poses have shape (..., 4, 4), got {given.shape}")
    if order not in ("moment_direction", "direction_moment"):
        raise ValueError(f"order must be moment_direction or direction_moment, got {order!r}")
    turned, origin = given[..., :3, :3], given[..., :3, 3]
    moments = np.swapaxes(np.cross(origin[..., None, :], np.swapaxes(turned, -1, -2)), -1, -2)  # o x each axis
    parts = (moments, turned) if order == "moment_direction" else (turned, moments)
    from_camera = np.concatenate(parts, -2).astype(np.float32)  # (..., 6, 3): both are linear in the camera's direction
    directions = _directions(intrinsics).astype(np.float32).reshape(-1, 3)
    rays: NDArray[np.float32] = directions @ np.swapaxes(from_camera, -1, -2)
    return rays.reshape(*given.shape[:-2], intrinsics.height, intrinsics.width, 6)


def _directions(intrinsics: Intrinsics) -> NDArray[np.float64]:
    """(height, width, 3): unit directions in the camera's axes."""
    rays = np.ones((intrinsics.height, intrinsics.width, 3))
    rays[..., 0] = (np.arange(intrinsics.width) + 0.5 - intrinsics.cx) / intrinsics.fx
    rays[..., 1] = ((np.arange(intrinsics.height) + 0.5 - intrinsics.cy) / intrinsics.fy)[:, None]
    directions: NDArray[np.float64] = rays / np.linalg.norm(rays, axis=-1, keepdims=True)
    return directions
