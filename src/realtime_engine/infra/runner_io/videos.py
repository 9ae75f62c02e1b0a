"""Films, picture by picture or as a whole."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from ..extras import require
from .cache import Cache, local_path
from .errors import InputError
from .film import Film

MOST_BYTES = 2 << 30

_EVENNESS = 0.25  # of a frame: containers with a clock of milliseconds shift frames that much


@dataclass(frozen=True, eq=False)
class Video:
    """A film as a whole.

    Attributes:
        frames: (frames, height, width, 3) uint8 RGB.
        fps: frames per second.
    """

    frames: NDArray[np.uint8]
    fps: Fraction


def load_first_frame(
    source: str | os.PathLike[str], *, cache: Cache | None = None, sha256: str | None = None
) -> NDArray[np.uint8]:
    """The first picture of a film, of which no more is read than that takes.

    Arguments and errors: those of :func:`load_video`. Returns (height, width, 3) uint8 RGB.
    """
    with _opened(source, cache, sha256) as film:
        for _, pixels in film.frames():
            return pixels
        raise film.empty()


def load_video(
    source: str | os.PathLike[str],
    *,
    fps: Fraction | int | None = None,
    max_frames: int | None = None,
    max_bytes: int = MOST_BYTES,
    cache: Cache | None = None,
    sha256: str | None = None,
) -> Video:
    """A film, or the beginning of one, turned as it is meant to be seen.

    Args:
        source: a path, or an http or https URL.
        fps: the rate to bring it to: at each of its ticks the picture is taken that is shown then. By default the
            film's own rate, which must be a steady one.
        max_frames: where to stop.
        max_bytes: how large the result may be.
        cache, sha256: those of :func:`~.cache.local_path`.

    Raises:
        InputError: it is no film, has no picture, is broken or cut off, too large, HDR (PQ or HLG), of changing size,
            or of no steady rate.
        FileNotFoundError, FetchError: it is not there.
        MissingCodecError, MissingDependencyError: no decoder for it, no PyAV.
    """
    if fps is not None and (isinstance(fps, float) or fps <= 0):
        raise ValueError(f"fps is a whole number or a Fraction above 0, got {fps!r}")
    if max_frames is not None and max_frames < 1:
        raise ValueError(f"max_frames is at least 1, got {max_frames}")
    with _opened(source, cache, sha256) as film:
        timed = film.frames() if fps is None else _resampled(film.frames(), Fraction(fps))
        times, pictures = _collected(film, timed, max_frames, max_bytes)
        rate = Fraction(fps) if fps is not None else _steady_rate(film, times)
    return Video(np.stack(pictures), rate)


@contextlib.contextmanager
def _opened(source: str | os.PathLike[str], cache: Cache | None, sha256: str | None) -> Iterator[Film]:
    av = require("av", "serve", "read films")
    path = local_path(source, cache=cache, sha256=sha256)
    with open(path, "rb") as file, Film(av, file, source) as film:
        yield film


def _collected(
    film: Film, timed: Iterator[tuple[Fraction, NDArray[np.uint8]]], max_frames: int | None, max_bytes: int
) -> tuple[list[Fraction], list[NDArray[np.uint8]]]:
    times: list[Fraction] = []
    pictures: list[NDArray[np.uint8]] = []
    for time, pixels in timed:
        if pictures and pixels.shape != pictures[0].shape:
            raise InputError(
                film.source, f"its size changes from {pictures[0].shape} to {pixels.shape}", "export it in one size"
            )
        if pixels.nbytes * (len(pictures) + 1) > max_bytes:
            raise InputError(
                film.source,
                f"it takes more than {max_bytes} bytes from frame {len(pictures)} on",
                "set max_frames, scale it down, or allow more",
            )
        times.append(time)
        pictures.append(pixels)
        if len(pictures) == max_frames:
            break
    if not pictures:
        raise film.empty()
    return times, pictures


def _resampled(
    timed: Iterator[tuple[Fraction, NDArray[np.uint8]]], fps: Fraction
) -> Iterator[tuple[Fraction, NDArray[np.uint8]]]:
    """At each tick the newest picture whose time has come; the last one is shown as long as the one before it."""
    begin, ticks, last, shown_for = Fraction(0), 0, None, 1 / fps
    for time, pixels in timed:
        if last is None:
            begin = time
        else:
            while begin + ticks / fps < time:
                yield begin + ticks / fps, last[1]
                ticks += 1
            shown_for = time - last[0]
        last = time, pixels
    while last is not None and begin + ticks / fps < last[0] + shown_for:
        yield begin + ticks / fps, last[1]
        ticks += 1


def _steady_rate(film: Film, times: list[Fraction]) -> Fraction:
    count = len(times) - 1
    if not count:
        return film.rate or Fraction(1)
    interval = (times[-1] - times[0]) / count
    if film.rate and abs(interval * film.rate - 1) * count < _EVENNESS:
        interval = 1 / film.rate  # exactly what is meant, where the clock is coarse
    for at, time in enumerate(times):
        if interval <= 0 or abs(time - times[0] - at * interval) > _EVENNESS * interval:
            raise InputError(
                film.source,
                f"its frame rate varies (frame {at} at {float(time):.3f} s)",
                "say with fps which one to use",
            )
    return 1 / interval
