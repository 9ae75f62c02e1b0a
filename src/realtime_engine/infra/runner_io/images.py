"""Still pictures."""

from __future__ import annotations

import io
import os
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..extras import MissingDependencyError, require
from .cache import Cache, local_path
from .deep_colour import is_deep_colour, is_deep_grey, read_deep_colour, to_bytes
from .errors import InputError
from .hdr import NAMES, still_transfer

MOST_PIXELS = 8192 * 8192


def load_image(
    source: str | os.PathLike[str],
    *,
    background: str = "black",
    max_pixels: int = MOST_PIXELS,
    cache: Cache | None = None,
    sha256: str | None = None,
) -> NDArray[np.uint8]:
    """A picture as people see it; of an animation the first one.

    It is turned as its EXIF orientation says and brought from its ICC profile to sRGB. Grey becomes R, G and B; 16 bits
    become 8, rounded half to even. What is transparent shows ``background``.

    Args:
        source: a path, or an http or https URL.
        background: a colour as in CSS: ``black``, ``white``, ``#336699``, ``hsl(120, 50%, 50%)``.
        max_pixels: how large it may be.
        cache, sha256: those of :func:`~.cache.local_path`.

    Returns:
        (height, width, 3) uint8 RGB, sRGB, contiguous.

    Raises:
        InputError: it is no picture, is broken, too large, or HDR (PQ or HLG); or an unknown colour.
        FileNotFoundError, FetchError: it is not there.
        MissingDependencyError: no Pillow; for colours of 16 bits, no OpenCV.
    """
    require("PIL.Image", "serve", "read pictures")
    colour = _checked_colour(background)
    path = local_path(source, cache=cache, sha256=sha256)
    picture = _opened(path, source, max_pixels)
    try:
        with picture:
            _refuse_hdr(path, source)
            whole = read_deep_colour(picture, path) if is_deep_colour(picture) else picture
            whole.load()
            return _to_rgb(whole, colour, source)
    except (InputError, MissingDependencyError):
        raise
    except Exception as error:  # a decoder may raise anything when it is given broken data
        raise InputError(source, f"it is broken ({error})", "get or export it again") from error


def _opened(path: Path, source: object, max_pixels: int) -> Any:
    from PIL import Image, UnidentifiedImageError

    try:
        picture = Image.open(path)
    except UnidentifiedImageError as error:
        raise InputError(
            source, "it is not a picture of a known format", "give PNG, JPEG, WebP, AVIF, GIF or TIFF"
        ) from error
    except (Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
        raise _too_large(source, str(error), max_pixels) from error
    except Exception as error:  # as in load_image
        raise InputError(source, f"it cannot be read ({error})", "get or export it again") from error
    if picture.width * picture.height > max_pixels:
        picture.close()
        raise _too_large(source, f"{picture.width} x {picture.height} pixels", max_pixels)
    return picture


def _too_large(source: object, what: str, max_pixels: int) -> InputError:
    return InputError(source, f"it is too large ({what})", f"scale it down to {max_pixels} pixels, or allow more")


def _refuse_hdr(path: Path, source: object) -> None:
    transfer = still_transfer(path)
    if transfer in NAMES:
        raise InputError(
            source,
            f"it is HDR ({NAMES[transfer]}), and models take SDR",
            "export it as sRGB, which is a matter of taste",
        )


def _to_rgb(picture: Any, background: tuple[int, int, int], source: object) -> NDArray[np.uint8]:
    from PIL import Image, ImageOps

    profile = picture.info.get("icc_profile")
    transparent = picture.has_transparency_data
    turned = ImageOps.exif_transpose(picture)
    if is_deep_grey(turned):
        return np.repeat(to_bytes(np.asarray(turned))[..., np.newaxis], 3, axis=2)
    if turned.mode == "F":
        raise InputError(source, "its pixels are floating point of no known range", "export it as 8-bit or 16-bit")
    if transparent:
        turned = turned.convert("RGBA")
        alpha = turned.getchannel("A")
        turned = _to_srgb(turned.convert("RGB"), profile)
        ground = Image.new("RGB", turned.size, background)
        turned = Image.composite(turned, ground, alpha)
    else:
        turned = _to_srgb(turned.convert("RGB") if turned.mode in ("1", "P") else turned, profile)
    return np.array(turned.convert("RGB"))


def _to_srgb(picture: Any, profile: bytes | None) -> Any:
    """A profile that does not fit the picture, or is broken, counts as none: browsers do the same."""
    if not profile or picture.mode not in ("RGB", "CMYK", "L"):
        return picture
    from PIL import ImageCms

    try:
        given = ImageCms.ImageCmsProfile(io.BytesIO(profile))
        return ImageCms.profileToProfile(picture, given, ImageCms.createProfile("sRGB"), outputMode="RGB")
    except (ImageCms.PyCMSError, OSError):
        return picture


def _checked_colour(name: str) -> tuple[int, int, int]:
    from PIL import ImageColor

    try:
        colour = ImageColor.getrgb(name)
    except ValueError as error:
        raise InputError(repr(name), "it is not a colour", "give a name or #rrggbb, such as 'white'") from error
    return colour[0], colour[1], colour[2]
