"""Decoded video frames as RGB arrays, scaled down on the way."""

from __future__ import annotations

import av
import cv2
import numpy as np
from av.video.reformatter import ColorRange
from numpy.typing import NDArray

_BT601 = (2, 5, 6)  # matrix coefficients of ITU-T H.273: unspecified, BT.470 BG, SMPTE 170M
_UNSPECIFIED = 2
_KNOWN = (0, 1, 4, 7, 9, *_BT601)  # what swscale converts; it refuses a frame of any other
_MOST_PIXELS = 8192 * 8192


def fit(width: int, height: int, max_side: int) -> tuple[int, int]:
    """The size (width, height) with this shape whose longer side is at most ``max_side``; never larger than it was.

    Scaled sides are even, as 4:2:0 video wants them, and at least 2.
    """
    longer = max(width, height)
    if longer <= max_side:
        return width, height
    return _even(width * max_side / longer), _even(height * max_side / longer)


def to_rgb(image: av.VideoFrame, max_side: int) -> NDArray[np.uint8]:
    """(height, width, 3) uint8 RGB, the longer side at most ``max_side`` pixels.

    4:2:0 video of the BT.601 matrix, which is what browsers send, is scaled before it is converted: 1280x720 to 640x360
    takes a sixth of what swscale takes. Everything else goes through swscale. A matrix that it does not know is taken
    for BT.601: wrong colours are better than no picture.

    Raises:
        ValueError: the picture is too large to be meant.
    """
    if image.width * image.height > _MOST_PIXELS:
        raise ValueError(f"a picture of {image.width}x{image.height} is too large")
    width, height = fit(image.width, image.height, max_side)
    if image.colorspace not in _KNOWN:
        image.colorspace = _UNSPECIFIED
    plain = image.format.name == "yuv420p" and image.color_range != ColorRange.JPEG and image.colorspace in _BT601
    if plain and width % 2 == 0 and height % 2 == 0:
        return cv2.cvtColor(_scaled(image, width, height), cv2.COLOR_YUV2RGB_I420)  # type: ignore[return-value]
    return image.reformat(width=width, height=height, format="rgb24").to_ndarray()  # type: ignore[return-value]


def _scaled(image: av.VideoFrame, width: int, height: int) -> NDArray[np.uint8]:
    """Planar 4:2:0 of the wanted size, (height * 3 / 2, width)."""
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
