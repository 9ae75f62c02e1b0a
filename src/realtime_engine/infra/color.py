"""Color conversions between RGB, for models, and planar 4:2:0, for video encoders.

I420 is the luma plane, then those of U and V at half the size, in one array of (rows * 3 / 2, columns); BT.601, limited
range. Its sides are even: an odd side of a picture is padded by one row or column that repeats the last.

OpenCV and PyAV are imported on first use, so that importing a frame does not load them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import av

Planes = NDArray[np.uint8]

_BT601 = (2, 5, 6)  # matrix coefficients of ITU-T H.273: unspecified, BT.470 BG, SMPTE 170M
_UNSPECIFIED = 2
_KNOWN = (0, 1, 4, 7, 9, *_BT601)  # what swscale converts; it refuses a frame with another matrix
_MAX_PIXELS = 8192 * 8192


def i420_shape(height: int, width: int) -> tuple[int, int]:
    """The shape of the I420 array of a picture."""
    return (height + height % 2) * 3 // 2, width + width % 2


def to_i420(pixels: NDArray[np.uint8]) -> Planes:
    """(height, width, 3) uint8 RGB to I420.

    Raises:
        ValueError: another shape or dtype.
    """
    import cv2

    if pixels.ndim != 3 or pixels.shape[2] != 3 or pixels.dtype != np.uint8:
        raise ValueError(f"expected (height, width, 3) uint8 RGB, got {pixels.shape} {pixels.dtype}")
    height, width = pixels.shape[:2]
    if height % 2 or width % 2:
        pixels = cv2.copyMakeBorder(pixels, 0, height % 2, 0, width % 2, cv2.BORDER_REPLICATE)  # type: ignore[assignment]
    return cv2.cvtColor(pixels, cv2.COLOR_RGB2YUV_I420)  # type: ignore[return-value]


def from_i420(planes: Planes) -> NDArray[np.uint8]:
    """I420 to (rows, columns, 3) RGB."""
    import cv2

    return cv2.cvtColor(planes, cv2.COLOR_YUV2RGB_I420)  # type: ignore[return-value]


def split_i420(planes: Planes) -> tuple[Planes, Planes, Planes]:
    """Views of the Y, U and V planes.

    Raises:
        ValueError: not an I420 array.
    """
    check_i420(planes)
    rows, columns = planes.shape[0] * 2 // 3, planes.shape[1]
    chroma = planes[rows:].reshape(2, rows // 2, columns // 2)
    return planes[:rows], chroma[0], chroma[1]


def scale_i420(planes: Planes, factor: float) -> Planes:
    """I420 at ``factor`` times its size, with even sides of at least 2; the same array if the size does not change.

    Raises:
        ValueError: a factor that is not above 0, or an array that is not I420.
    """
    import cv2

    if not factor > 0:
        raise ValueError(f"the scale factor must be above 0, got {factor!r}")
    split = split_i420(planes)
    rows, columns = (max(2 * round(side * factor / 2), 2) for side in split[0].shape)
    if (rows, columns) == split[0].shape:
        return planes
    scaled = np.empty((rows * 3 // 2, columns), np.uint8)
    method = cv2.INTER_AREA if factor < 1 else cv2.INTER_LINEAR
    for plane, target in zip(split, split_i420(scaled), strict=True):
        cv2.resize(plane, target.shape[::-1], dst=target, interpolation=method)
    return scaled


def check_i420(planes: Planes) -> None:
    """Validate an I420 array.

    Raises:
        ValueError: another shape or dtype.
    """
    if planes.ndim != 2 or planes.shape[0] % 3 or planes.shape[1] % 2 or planes.dtype != np.uint8 or not planes.size:
        raise ValueError(f"expected I420 planes (height * 3 / 2, width) uint8, got {planes.shape} {planes.dtype}")


def fit(width: int, height: int, max_side: int) -> tuple[int, int]:
    """The size (width, height) of this aspect ratio whose longer side is at most ``max_side``; never larger than given.

    Scaled sides are even, as 4:2:0 requires, and at least 2.
    """
    longer = max(width, height)
    if longer <= max_side:
        return width, height
    return _even(width * max_side / longer), _even(height * max_side / longer)


def to_rgb(image: av.VideoFrame, max_side: int) -> NDArray[np.uint8]:
    """(height, width, 3) uint8 RGB, the longer side at most ``max_side`` pixels.

    4:2:0 video with the BT.601 matrix, which browsers send, is scaled before it is converted: 1280x720 to 640x360 takes
    a sixth of the time of swscale. Everything else is converted by swscale; a matrix that it does not support is taken
    for BT.601.

    Raises:
        ValueError: the picture is too large.
    """
    import cv2
    from av.video.reformatter import ColorRange

    if image.width * image.height > _MAX_PIXELS:
        raise ValueError(f"a picture of {image.width}x{image.height} is too large")
    width, height = fit(image.width, image.height, max_side)
    if image.colorspace not in _KNOWN:
        image.colorspace = _UNSPECIFIED
    plain = image.format.name == "yuv420p" and image.color_range != ColorRange.JPEG and image.colorspace in _BT601
    if plain and width % 2 == 0 and height % 2 == 0:
        return cv2.cvtColor(_scaled(image, width, height), cv2.COLOR_YUV2RGB_I420)  # type: ignore[return-value]
    return image.reformat(width=width, height=height, format="rgb24").to_ndarray()  # type: ignore[return-value]


def _scaled(image: av.VideoFrame, width: int, height: int) -> NDArray[np.uint8]:
    """The planes at the target size, (height * 3 / 2, width)."""
    import cv2

    planes = np.empty((height * 3 // 2, width), np.uint8)
    flat, luma, chroma = planes.reshape(-1), width * height, width * height // 4
    targets = (
        flat[:luma].reshape(height, width),
        flat[luma : luma + chroma].reshape(height // 2, width // 2),
        flat[luma + chroma :].reshape(height // 2, width // 2),
    )
    for plane, target in zip(image.planes, targets, strict=True):
        source = np.frombuffer(memoryview(plane), np.uint8).reshape(plane.height, plane.line_size)[:, : plane.width]
        if source.shape == target.shape:
            np.copyto(target, source)
        else:
            cv2.resize(source, target.shape[::-1], dst=target, interpolation=cv2.INTER_AREA)
    return planes


def _even(side: float) -> int:
    return max(2 * round(side / 2), 2)
