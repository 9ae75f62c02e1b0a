"""Pictures of 16 bits per channel, which Pillow has no mode for or cuts to the upper byte."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..extras import require

_GREY = ("I", "I;16", "I;16B", "I;16L", "I;16N")


def is_deep_grey(picture: Any) -> bool:
    """Whether a picture of Pillow is grey of more than 8 bits."""
    return picture.mode in _GREY


def is_deep_colour(picture: Any) -> bool:
    """Whether the file of a picture that Pillow has opened, but not read, has colours of 16 bits."""
    raw_modes = [str(tile[3]) for tile in picture.tile]
    return picture.mode in ("RGB", "RGBA", "LA") and any(";16" in mode for mode in raw_modes)


def to_bytes(values: NDArray[Any]) -> NDArray[np.uint8]:
    """0..65535 to 0..255, rounded half to even.

    Raises:
        ValueError: a value that 16 bits do not hold.
    """
    if values.size and (values.min() < 0 or values.max() > 65535):
        raise ValueError(f"expected values of 16 bits, got {values.min()} to {values.max()}")
    return np.rint(values / 257.0).astype(np.uint8)  # 257 * 255 = 65535


def read_deep_colour(picture: Any, path: Path) -> Any:
    """The picture of the file as 8-bit RGB or RGBA, with what else Pillow knows of it.

    Raises:
        ValueError: it cannot be decoded.
    """
    cv2 = require("cv2", "serve", "read pictures of 16 bits")
    values = cv2.imdecode(np.fromfile(path, np.uint8), cv2.IMREAD_UNCHANGED)
    if values is None or values.dtype != np.uint16 or values.ndim != 3 or values.shape[2] not in (3, 4):
        raise ValueError("it cannot be decoded with 16 bits")
    order = [2, 1, 0, 3][: values.shape[2]]  # OpenCV has blue first
    image = require("PIL.Image", "serve", "read pictures")
    shallow = image.fromarray(to_bytes(values[..., order]))
    shallow.info = picture.info
    return shallow
