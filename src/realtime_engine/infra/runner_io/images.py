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
from .errors import InputError

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


NAMES = {16: "PQ", 18: "HLG"}

_HEAD = 1 << 18


def still_transfer(path: Path) -> int | None:
    """The transfer characteristics that a PNG (its cICP chunk) or AVIF (its nclx box) names, if it names any."""
    with open(path, "rb") as file:
        head = file.read(_HEAD)
    if head.startswith(b"\x89PNG\r\n\x1a\n"):
        return _of_png(head)
    if head[4:8] == b"ftyp":
        return _of_avif(head)
    return None


def _of_png(head: bytes) -> int | None:
    """PNG, third edition, 11.3.2.6: primaries, transfer, matrix, range; before the pixels."""
    at = 8
    while at + 10 <= len(head):
        size, kind = int.from_bytes(head[at : at + 4], "big"), head[at + 4 : at + 8]
        if kind == b"cICP":
            return head[at + 9]
        if kind == b"IDAT":
            return None
        at += size + 12
    return None


def _of_avif(head: bytes) -> int | None:
    """ISO/IEC 14496-12, 12.1.5: primaries, transfer and matrix of 16 bits each."""
    at = head.find(b"colrnclx")
    if at < 0 or at + 12 > len(head):
        return None
    return int.from_bytes(head[at + 10 : at + 12], "big")


MAX_PIXELS = 8192 * 8192


def load_image(
    source: str | os.PathLike[str],
    *,
    background: str = "black",
    max_pixels: int = MAX_PIXELS,
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


Pixels = NDArray[np.uint8]

INTERPOLATIONS = ("nearest", "box", "bilinear", "bicubic", "lanczos")


def resize(pixels: Pixels, height: int, width: int, interpolation: str = "lanczos") -> Pixels:
    """Pictures of ``height`` x ``width``, whatever that does to their shape.

    All but ``nearest`` are separable filters of Pillow, which widen as the picture shrinks: ``box`` the mean of an
    area, ``bilinear`` a triangle, ``bicubic`` a cubic with a = -0.5, ``lanczos`` a windowed sinc with three lobes.

    Args:
        pixels: (height, width, 3) or (frames, height, width, 3), uint8.
        height, width: of the result, at least 1.
        interpolation: one of ``nearest box bilinear bicubic lanczos``.

    Returns:
        As many pictures; ``pixels`` itself if they have that size already.

    Raises:
        ValueError: another shape, dtype, size or name.
        MissingDependencyError: no Pillow.
    """
    _check(pixels, height, width)
    if interpolation not in INTERPOLATIONS:
        raise ValueError(f"unknown interpolation {interpolation!r}, expected one of {', '.join(INTERPOLATIONS)}")
    if pixels.shape[-3:-1] == (height, width):
        return pixels
    if interpolation == "nearest":
        rows, columns = _nearest(pixels.shape[-3], height), _nearest(pixels.shape[-2], width)
        return pixels[..., rows[:, np.newaxis], columns, :]
    image = require("PIL.Image", "serve", "resize pictures")
    method = image.Resampling[interpolation.upper()]
    if pixels.ndim == 3:
        return _resized(image, pixels, height, width, method)
    result = np.empty((len(pixels), height, width, 3), np.uint8)
    for at, picture in enumerate(pixels):
        result[at] = _resized(image, picture, height, width, method)
    return result


def centre_crop(pixels: Pixels, height: int, width: int) -> Pixels:
    """The middle ``height`` x ``width`` of pictures, as a view; if need be half a pixel above and left of it.

    Args:
        pixels: (height, width, 3) or (frames, height, width, 3), uint8.
        height, width: at least 1, and no larger than the pictures.

    Raises:
        ValueError: another shape or dtype, or pictures that are smaller.
    """
    _check(pixels, height, width)
    top, left = (pixels.shape[-3] - height) // 2, (pixels.shape[-2] - width) // 2
    if top < 0 or left < 0:
        given = f"{pixels.shape[-3]} x {pixels.shape[-2]}"
        raise ValueError(
            f"cannot crop {height} x {width} out of {given} (height x width): resize it first, or use cover()"
        )
    return pixels[..., top : top + height, left : left + width, :]


def cover(pixels: Pixels, height: int, width: int, interpolation: str = "lanczos") -> Pixels:
    """Pictures of ``height`` x ``width`` of the same shape as before: resized until they cover it, then cropped.

    Arguments, result and errors: those of :func:`resize`; contiguous.
    """
    _check(pixels, height, width)
    rows, columns = pixels.shape[-3:-1]
    if rows * width < columns * height:  # wider than wanted
        size = height, max(round(columns * height / rows), width)
    else:
        size = max(round(rows * width / columns), height), width
    return np.ascontiguousarray(centre_crop(resize(pixels, *size, interpolation), height, width))


def _nearest(old: int, new: int) -> NDArray[np.int64]:
    """For each new row the old one in which its middle lies; in whole numbers, so that ties have one answer."""
    return (2 * np.arange(new, dtype=np.int64) + 1) * old // (2 * new)


def _resized(image: Any, picture: Pixels, height: int, width: int, method: Any) -> Pixels:
    return np.asarray(image.fromarray(np.ascontiguousarray(picture)).resize((width, height), method))


def _check(pixels: Pixels, height: int, width: int) -> None:
    if pixels.dtype != np.uint8 or pixels.ndim not in (3, 4) or pixels.shape[-1] != 3 or 0 in pixels.shape[-3:]:
        raise ValueError(
            f"expected (height, width, 3) or (frames, height, width, 3) uint8, got {pixels.shape} {pixels.dtype}"
        )
    if height < 1 or width < 1:
        raise ValueError(f"a picture has at least one row and one column, got {height} x {width} (height x width)")
