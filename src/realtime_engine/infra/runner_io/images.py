"""Images: loading as 8-bit sRGB, resizing and cropping."""

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

_GRAY = ("I", "I;16", "I;16B", "I;16L", "I;16N")


def is_deep_gray(picture: Any) -> bool:
    """Whether a Pillow image is gray with more than 8 bits."""
    return picture.mode in _GRAY


def is_deep_color(picture: Any) -> bool:
    """Whether the file of an opened, unread Pillow image has 16 bits per color channel."""
    raw_modes = [str(tile[3]) for tile in picture.tile]
    return picture.mode in ("RGB", "RGBA", "LA") and any(";16" in mode for mode in raw_modes)


def to_bytes(values: NDArray[Any]) -> NDArray[np.uint8]:
    """Convert 0..65535 to 0..255, rounded half to even.

    Raises:
        ValueError: a value does not fit into 16 bits.
    """
    if values.size and (values.min() < 0 or values.max() > 65535):
        raise ValueError(f"expected values of 16 bits, got {values.min()} to {values.max()}")
    return np.rint(values / 257.0).astype(np.uint8)  # 257 * 255 = 65535


def read_deep_color(picture: Any, path: Path) -> Any:
    """Read the file of a Pillow image as 8-bit RGB or RGBA, with the metadata of the image.

    Raises:
        ValueError: it cannot be decoded.
    """
    cv2 = require("cv2", "serve", "read pictures of 16 bits")
    values = cv2.imdecode(np.fromfile(path, np.uint8), cv2.IMREAD_UNCHANGED)
    if values is None or values.dtype != np.uint16 or values.ndim != 3 or values.shape[2] not in (3, 4):
        raise ValueError("it cannot be decoded with 16 bits")
    order = [2, 1, 0, 3][: values.shape[2]]  # OpenCV uses BGR
    image = require("PIL.Image", "serve", "read pictures")
    shallow = image.fromarray(to_bytes(values[..., order]))
    shallow.info = picture.info
    return shallow


NAMES = {16: "PQ", 18: "HLG"}

_HEAD = 1 << 18


def still_transfer(path: Path) -> int | None:
    """The transfer characteristics of a PNG (cICP chunk) or AVIF (nclx box); ``None`` without them."""
    with open(path, "rb") as file:
        head = file.read(_HEAD)
    if head.startswith(b"\x89PNG\r\n\x1a\n"):
        return _of_png(head)
    if head[4:8] == b"ftyp":
        return _of_avif(head)
    return None


def _of_png(head: bytes) -> int | None:
    """PNG, third edition, 11.3.2.6: primaries, transfer, matrix and range, before the image data."""
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
    """ISO/IEC 14496-12, 12.1.5: primaries, transfer and matrix, 16 bits each."""
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
    """Load an image as it is displayed; of an animation, the first frame.

    The EXIF orientation is applied, and the ICC profile is converted to sRGB. Gray becomes RGB; 16 bits become 8,
    rounded half to even. Transparent pixels show ``background``.

    Args:
        source: a path, or an http or https URL.
        background: a CSS color: ``black``, ``white``, ``#336699``, ``hsl(120, 50%, 50%)``.
        max_pixels: maximum number of pixels.
        cache: see :func:`~.cache.local_path`.
        sha256: see :func:`~.cache.local_path`.

    Returns:
        (height, width, 3) uint8 RGB, sRGB, contiguous.

    Raises:
        InputError: it is not an image, is damaged, too large, or HDR (PQ or HLG); or the color is unknown.
        FileNotFoundError: the file does not exist.
        FetchError: the download failed.
        MissingDependencyError: Pillow is missing, or OpenCV for 16-bit colors.
    """
    require("PIL.Image", "serve", "read pictures")
    color = _checked_color(background)
    path = local_path(source, cache=cache, sha256=sha256)
    picture = _opened(path, source, max_pixels)
    try:
        with picture:
            _refuse_hdr(path, source)
            complete = read_deep_color(picture, path) if is_deep_color(picture) else picture
            complete.load()
            return _to_rgb(complete, color, source)
    except (InputError, MissingDependencyError):
        raise
    except Exception as error:  # decoders raise arbitrary errors for damaged data
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
            "convert it to sRGB, which needs a choice of tone mapping",
        )


def _to_rgb(picture: Any, background: tuple[int, int, int], source: object) -> NDArray[np.uint8]:
    from PIL import Image, ImageOps

    profile = picture.info.get("icc_profile")
    transparent = picture.has_transparency_data
    turned = ImageOps.exif_transpose(picture)
    if is_deep_gray(turned):
        return np.repeat(to_bytes(np.asarray(turned))[..., np.newaxis], 3, axis=2)
    if turned.mode == "F":
        raise InputError(source, "its pixels are floating point of unknown range", "export it as 8-bit or 16-bit")
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
    """Convert to sRGB. An unsuitable or damaged profile is ignored, as in browsers."""
    if not profile or picture.mode not in ("RGB", "CMYK", "L"):
        return picture
    from PIL import ImageCms

    try:
        given = ImageCms.ImageCmsProfile(io.BytesIO(profile))
        return ImageCms.profileToProfile(picture, given, ImageCms.createProfile("sRGB"), outputMode="RGB")
    except (ImageCms.PyCMSError, OSError):
        return picture


def _checked_color(name: str) -> tuple[int, int, int]:
    from PIL import ImageColor

    try:
        color = ImageColor.getrgb(name)
    except ValueError as error:
        raise InputError(repr(name), "it is not a color", "give a name or #rrggbb, such as 'white'") from error
    return color[0], color[1], color[2]


Pixels = NDArray[np.uint8]

INTERPOLATIONS = ("nearest", "box", "bilinear", "bicubic", "lanczos")


def resize(pixels: Pixels, height: int, width: int, interpolation: str = "lanczos") -> Pixels:
    """Resize images to ``height`` x ``width``, without keeping the aspect ratio.

    All filters but ``nearest`` are the separable filters of Pillow, whose support widens when the image shrinks:
    ``box`` is the mean of an area, ``bilinear`` a triangle, ``bicubic`` a cubic with a = -0.5, ``lanczos`` a windowed
    sinc with three lobes.

    Args:
        pixels: (height, width, 3) or (frames, height, width, 3), uint8.
        height: rows of the result, at least 1.
        width: columns of the result, at least 1.
        interpolation: one of ``nearest box bilinear bicubic lanczos``.

    Returns:
        The resized images; ``pixels`` itself if the size is unchanged.

    Raises:
        ValueError: the shape, dtype, size or interpolation is invalid.
        MissingDependencyError: Pillow is missing.
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


def center_crop(pixels: Pixels, height: int, width: int) -> Pixels:
    """The central ``height`` x ``width`` pixels of images, as a view. An odd remainder is cut from the bottom right.

    Args:
        pixels: (height, width, 3) or (frames, height, width, 3), uint8.
        height: at least 1, and at most the height of the images.
        width: at least 1, and at most the width of the images.

    Raises:
        ValueError: the shape or dtype is invalid, or the images are smaller.
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
    """Resize images to cover ``height`` x ``width``, keeping the aspect ratio, and crop them to that size.

    Arguments and errors are those of :func:`resize`. The result is contiguous.
    """
    _check(pixels, height, width)
    rows, columns = pixels.shape[-3:-1]
    if rows * width < columns * height:  # wider than wanted
        size = height, max(round(columns * height / rows), width)
    else:
        size = max(round(rows * width / columns), height), width
    return np.ascontiguousarray(center_crop(resize(pixels, *size, interpolation), height, width))


def _nearest(old: int, new: int) -> NDArray[np.int64]:
    """For each new row, the old row that contains its center. Integer arithmetic makes ties unambiguous."""
    return (2 * np.arange(new, dtype=np.int64) + 1) * old // (2 * new)


def _resized(image: Any, picture: Pixels, height: int, width: int, method: Any) -> Pixels:
    return np.asarray(image.fromarray(np.ascontiguousarray(picture)).resize((width, height), method))


def _check(pixels: Pixels, height: int, width: int) -> None:
    if pixels.dtype != np.uint8 or pixels.ndim not in (3, 4) or pixels.shape[-1] != 3 or 0 in pixels.shape[-3:]:
        raise ValueError(
            f"expected (height, width, 3) or (frames, height, width, 3) uint8, got {pixels.shape} {pixels.dtype}"
        )
    if height < 1 or width < 1:
        raise ValueError(f"height and width must be at least 1, got {height} x {width} (height x width)")
