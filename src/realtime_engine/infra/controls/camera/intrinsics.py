"""Camera intrinsics, and the rays of pixels."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray


@dataclass(frozen=True)
class Intrinsics:
    """A pinhole camera without distortion.

    The corner of the picture is at (0, 0) and the center of its first pixel at (0.5, 0.5), so resizing multiplies all
    values by a factor.

    Attributes:
        width, height: pixels.
        fx, fy: focal lengths in pixels.
        cx, cy: principal point in pixels.

    Raises:
        ValueError: a field is invalid; the message names it.
    """

    width: int
    height: int
    fx: float
    fy: float
    cx: float
    cy: float

    def __post_init__(self) -> None:
        for name in ("width", "height", "fx", "fy"):
            value = getattr(self, name)
            if not (math.isfinite(value) and value > 0):
                raise ValueError(f"{name} must be above 0 pixels, got {value!r}")
        if not (math.isfinite(self.cx) and math.isfinite(self.cy)):
            raise ValueError(f"cx and cy must be finite, got {self.cx!r} and {self.cy!r}")

    @classmethod
    def from_fov(
        cls, width: int, height: int, *, horizontal: float | None = None, vertical: float | None = None
    ) -> Intrinsics:
        """A camera with square pixels and a centered principal point, from its field of view in degrees.

        Raises:
            ValueError: not exactly one field of view is given, or it is not between 0 and 180 degrees.
        """
        if (horizontal is None) == (vertical is None):
            raise ValueError(f"give either horizontal or vertical, got {horizontal!r} and {vertical!r}")
        side, degrees = (width, horizontal) if horizontal is not None else (height, vertical)
        if degrees is None or not 0 < degrees < 180:
            raise ValueError(f"a field of view is above 0 and below 180 degrees, got {degrees!r}")
        focal = side / 2 / math.tan(math.radians(degrees) / 2)
        return cls(width, height, focal, focal, width / 2, height / 2)

    @property
    def horizontal_fov(self) -> float:
        """Angle in degrees between the left and the right edge of the picture."""
        return math.degrees(math.atan2(self.cx, self.fx) + math.atan2(self.width - self.cx, self.fx))

    @property
    def vertical_fov(self) -> float:
        """Angle in degrees between the top and the bottom edge of the picture."""
        return math.degrees(math.atan2(self.cy, self.fy) + math.atan2(self.height - self.cy, self.fy))

    @property
    def matrix(self) -> NDArray[np.float64]:
        """Matrix (3, 3) from RDF camera coordinates to homogeneous pixel coordinates."""
        return np.array([[self.fx, 0, self.cx], [0, self.fy, self.cy], [0, 0, 1]], np.float64)

    @property
    def normalized(self) -> NDArray[np.float64]:
        """Array (4,) of fx, fy, cx, cy, divided by the width or height of the picture."""
        return np.array([self.fx / self.width, self.fy / self.height, self.cx / self.width, self.cy / self.height])

    def resized(self, width: int, height: int) -> Intrinsics:
        """Intrinsics of the picture resized to ``width`` x ``height``; the aspect ratio may change."""
        x, y = width / self.width, height / self.height
        return Intrinsics(width, height, self.fx * x, self.fy * y, self.cx * x, self.cy * y)

    def cropped(self, left: float, top: float, width: int, height: int) -> Intrinsics:
        """Intrinsics of a part of the picture. Negative ``left`` and ``top`` add a border."""
        return Intrinsics(width, height, self.fx, self.fy, self.cx - left, self.cy - top)

    def resized_and_cropped(self, width: int, height: int) -> Intrinsics:
        """Intrinsics of the picture scaled to cover ``width`` x ``height`` and cropped around its center."""
        scale = max(width / self.width, height / self.height)
        whole_x, whole_y = self.width * scale, self.height * scale
        left, top = (whole_x - width) / 2, (whole_y - height) / 2
        cx, cy = self.cx * scale - left, self.cy * scale - top
        return Intrinsics(width, height, self.fx * scale, self.fy * scale, cx, cy)


def plucker_rays(
    poses: ArrayLike,
    intrinsics: Intrinsics,
    *,
    order: Literal["moment_direction", "direction_moment"] = "moment_direction",
) -> NDArray[np.float32]:
    """Plücker rays (..., height, width, 6) float32 of the pixel centers, for camera-to-world poses (..., 4, 4) in RDF.

    A ray through o with unit direction d has the coordinates (o x d, d), which do not depend on the choice of o on the
    line (Plücker, 1865). Generative models use them in Sitzmann et al., Light Field Networks, 2021, and He et al.,
    CameraCtrl, 2024; the latter puts the moment first.

    Raises:
        ValueError: the poses have another shape, or the order is unknown.
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
