"""How much two pictures differ: PSNR and SSIM."""

from __future__ import annotations

import math

import cv2
import numpy as np
from numpy.typing import NDArray

_WINDOW, _SIGMA = 11, 1.5
_K1, _K2 = 0.01, 0.03
_PEAK = 255.0

Pixels = NDArray[np.uint8]


def psnr(one: Pixels, other: Pixels) -> float:
    """Peak signal-to-noise ratio of two uint8 pictures of one shape, in dB; infinite when they are equal.

    Raises:
        ValueError: of different shapes, or not uint8.
    """
    _check_alike(one, other)
    error = mean_square_error(one, other)
    return math.inf if error == 0 else 10 * math.log10(_PEAK**2 / error)


def mean_square_error(one: Pixels, other: Pixels) -> float:
    """Of two uint8 pictures of one shape, in squared steps of 255."""
    difference = cv2.absdiff(one, other).astype(np.float32)
    return float(np.mean(np.square(difference), dtype=np.float64))


def ssim(one: Pixels, other: Pixels) -> float:
    """Mean structural similarity of two pictures: 1 when they are equal, at most.

    After Wang, Bovik, Sheikh, Simoncelli: "Image Quality Assessment: From Error Visibility to Structural Similarity",
    IEEE Transactions on Image Processing 13 (4), 2004: an 11 x 11 Gaussian window of standard deviation 1.5, K1 = 0.01,
    K2 = 0.03, where the window lies wholly inside; the mean over all places and channels.

    Args:
        one, other: (height, width) or (height, width, channels), uint8, both sides 11 or more.

    Raises:
        ValueError: of different shapes, not uint8, or too small.
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
    likeness = (2 * mean_a * mean_b + c1) * (2 * covariance + c2)
    likeness /= (mean_a**2 + mean_b**2 + c1) * (var_a + var_b + c2)
    return float(likeness.mean())


def _blurred(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Weighted means over the window, at the places where it lies inside."""
    edge = _WINDOW // 2
    blurred = cv2.GaussianBlur(values, (_WINDOW, _WINDOW), _SIGMA)
    return np.asarray(blurred[edge:-edge, edge:-edge])


def _check_alike(one: Pixels, other: Pixels) -> None:
    if one.shape != other.shape:
        raise ValueError(f"expected two pictures of one shape, got {one.shape} and {other.shape}")
    if one.dtype != np.uint8 or other.dtype != np.uint8:
        raise ValueError(f"expected uint8 pictures, got {one.dtype} and {other.dtype}")
