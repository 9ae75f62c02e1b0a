"""Frame-by-frame comparison of two videos: PSNR and SSIM."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

import av
import cv2
import numpy as np
from numpy.typing import NDArray

_WINDOW, _SIGMA = 11, 1.5
_K1, _K2 = 0.01, 0.03
_PEAK = 255.0

Pixels = NDArray[np.uint8]


def psnr(one: Pixels, other: Pixels) -> float:
    """Peak signal-to-noise ratio of two uint8 images of the same shape, in dB; infinite if they are equal.

    Raises:
        ValueError: the shapes differ, or an image is not uint8.
    """
    _check_alike(one, other)
    error = mean_square_error(one, other)
    return math.inf if error == 0 else 10 * math.log10(_PEAK**2 / error)


def mean_square_error(one: Pixels, other: Pixels) -> float:
    """Mean square error of two uint8 images of the same shape."""
    difference = cv2.absdiff(one, other).astype(np.float32)
    return float(np.mean(np.square(difference), dtype=np.float64))


def ssim(one: Pixels, other: Pixels) -> float:
    """Mean structural similarity of two images; 1 if they are equal.

    The algorithm is that of Wang, Bovik, Sheikh and Simoncelli, "Image Quality Assessment: From Error Visibility to
    Structural Similarity", IEEE Transactions on Image Processing 13 (4), 2004: an 11 x 11 Gaussian window with standard
    deviation 1.5, K1 = 0.01 and K2 = 0.03, averaged over all channels and all positions of the window inside the image.

    Args:
        one: (height, width) or (height, width, channels), uint8, both sides at least 11.
        other: an image of the same shape.

    Raises:
        ValueError: the shapes differ, or the images are not uint8 or too small.
    """
    _check_alike(one, other)
    if min(one.shape[:2]) < _WINDOW:
        raise ValueError(
            f"SSIM needs pictures of {_WINDOW}x{_WINDOW} pixels or more, got {one.shape[1]}x{one.shape[0]}"
        )
    a, b = one.astype(np.float64), other.astype(np.float64)
    mean_a, mean_b = _blurred(a), _blurred(b)
    var_a = _blurred(a * a) - mean_a**2
    var_b = _blurred(b * b) - mean_b**2
    covariance = _blurred(a * b) - mean_a * mean_b
    c1, c2 = (_K1 * _PEAK) ** 2, (_K2 * _PEAK) ** 2
    similarity = (2 * mean_a * mean_b + c1) * (2 * covariance + c2)
    similarity /= (mean_a**2 + mean_b**2 + c1) * (var_a + var_b + c2)
    return float(similarity.mean())


def _blurred(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Weighted means over the window, at all positions inside the image."""
    edge = _WINDOW // 2
    blurred = cv2.GaussianBlur(values, (_WINDOW, _WINDOW), _SIGMA)
    return np.asarray(blurred[edge:-edge, edge:-edge])


def _check_alike(one: Pixels, other: Pixels) -> None:
    if one.shape != other.shape:
        raise ValueError(f"expected two pictures of one shape, got {one.shape} and {other.shape}")
    if one.dtype != np.uint8 or other.dtype != np.uint8:
        raise ValueError(f"expected uint8 pictures, got {one.dtype} and {other.dtype}")


@dataclass(frozen=True)
class FilmDifference:
    """Result of a comparison.

    Attributes:
        frames: number of frames.
        psnr_db: PSNR over all frames in dB; infinite if all are equal.
        worst_psnr_db, worst_frame: PSNR and number of the frame with the largest difference.
        ssim, worst_ssim: mean and minimum of the SSIM.
    """

    frames: int
    psnr_db: float
    worst_psnr_db: float
    worst_frame: int
    ssim: float
    worst_ssim: float


def compare_films(film: str | os.PathLike[str], golden: str | os.PathLike[str]) -> FilmDifference:
    """Compare two videos, decoded to RGB.

    Raises:
        ValueError: they differ in size or length, have no frames, or cannot be decoded; the message names the file.
        OSError: a file cannot be read.
    """
    errors: list[float] = []
    similarities: list[float] = []
    for number, (mine, theirs) in enumerate(zip_longest(_pictures(film), _pictures(golden))):
        if mine is None or theirs is None:
            longer, shorter = (golden, film) if mine is None else (film, golden)
            raise ValueError(f"{shorter} has {number} pictures, {longer} has more: expected equally many")
        if mine.shape != theirs.shape:
            raise ValueError(f"{film} is {_size(mine)}, {golden} is {_size(theirs)}: expected the same size")
        errors.append(mean_square_error(mine, theirs))
        similarities.append(ssim(mine, theirs))
    worst = int(np.argmax(errors))
    return FilmDifference(
        frames=len(errors),
        psnr_db=_decibels(float(np.mean(errors))),
        worst_psnr_db=_decibels(errors[worst]),
        worst_frame=worst,
        ssim=float(np.mean(similarities)),
        worst_ssim=min(similarities),
    )


def _pictures(path: str | os.PathLike[str]) -> Iterator[NDArray[np.uint8]]:
    try:
        with av.open(os.fspath(path)) as container:
            if not container.streams.video:
                raise ValueError(f"{path} has no video in it")
            empty = True
            for frame in container.decode(video=0):
                empty = False
                pixels: Any = frame.to_ndarray(format="rgb24")
                yield pixels
    except av.error.FFmpegError as error:
        if isinstance(error, FileNotFoundError | PermissionError | IsADirectoryError):
            raise
        raise ValueError(f"{path} cannot be decoded: {error.strerror}") from error
    if empty:
        raise ValueError(f"{path} has no pictures in it")


def _decibels(error: float) -> float:
    return math.inf if error == 0 else 10 * math.log10(_PEAK**2 / error)


def _size(pixels: NDArray[np.uint8]) -> str:
    return f"{pixels.shape[1]}x{pixels.shape[0]}"
