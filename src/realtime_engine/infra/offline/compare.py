"""Two films, picture by picture."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

import av
import numpy as np
from numpy.typing import NDArray

from .quality import mean_square_error, ssim

_PEAK = 255.0


@dataclass(frozen=True)
class FilmDifference:
    """What a comparison found.

    Attributes:
        frames: pictures compared.
        psnr_db: of all pictures together, in dB; infinite when every one is equal.
        worst_psnr_db, worst_frame: of the picture that differs most, and its number.
        ssim, worst_ssim: mean over all pictures, and the least.
    """

    frames: int
    psnr_db: float
    worst_psnr_db: float
    worst_frame: int
    ssim: float
    worst_ssim: float


def compare_films(film: str | os.PathLike[str], golden: str | os.PathLike[str]) -> FilmDifference:
    """Compare two films, each decoded to RGB.

    Raises:
        ValueError: they have different sizes or lengths, no pictures, or cannot be decoded; the message names the file.
        OSError: a file cannot be read.
    """
    errors: list[float] = []
    likenesses: list[float] = []
    for number, (mine, theirs) in enumerate(zip_longest(_pictures(film), _pictures(golden))):
        if mine is None or theirs is None:
            longer, shorter = (golden, film) if mine is None else (film, golden)
            raise ValueError(f"{shorter} has {number} pictures, {longer} has more: expected equally many")
        if mine.shape != theirs.shape:
            raise ValueError(f"{film} is {_size(mine)}, {golden} is {_size(theirs)}: expected the same size")
        errors.append(mean_square_error(mine, theirs))
        likenesses.append(ssim(mine, theirs))
    worst = int(np.argmax(errors))
    return FilmDifference(
        frames=len(errors),
        psnr_db=_decibels(float(np.mean(errors))),
        worst_psnr_db=_decibels(errors[worst]),
        worst_frame=worst,
        ssim=float(np.mean(likenesses)),
        worst_ssim=min(likenesses),
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
