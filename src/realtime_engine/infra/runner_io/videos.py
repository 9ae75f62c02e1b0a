"""Videos: decoding frame by frame, and loading as an array."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from types import TracebackType
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from ..extras import require
from ..mp4 import MissingCodecError
from .cache import Cache, local_path
from .errors import InputError
from .images import MAX_PIXELS, NAMES

_UNSPECIFIED, _BT709 = 2, 1
_HD_ROWS = 720
_ACCURATE = 0x2 | 0x2000 | 0x40000  # swscale's bilinear, full_chroma_int, accurate_rnd: 4 to 10 dB better
_TONE_MAP = (
    "map it to SDR first: ffmpeg -i IN -vf zscale=t=linear:npl=100,tonemap=hable,zscale=p=709:t=709:m=709:r=tv,"
    "format=yuv420p OUT"
)


class Film:
    """Decodes the first video stream of a file. A context manager.

    Files referenced by a playlist are not opened.

    Args:
        av: the module.
        file: a seekable file.
        source: name of the file in error messages.

    Attributes:
        source: as given.
        rate: frames per second stored in the file; ``None`` if missing.

    Raises:
        InputError: it is not a video file, or has no video stream.
        MissingCodecError: PyAV has no decoder for it.
    """

    def __init__(self, av: Any, file: IO[bytes], source: object) -> None:
        self.source = source
        self._av = av
        try:
            self._container = av.open(file, container_options={"protocol_whitelist": "none"}, metadata_errors="replace")
        except (av.FFmpegError, OSError) as error:
            raise InputError(
                source, f"it is not a video, or its beginning or end is missing ({error.strerror})", "get it again"
            ) from error
        try:
            self._stream = self._video_stream()
        except BaseException:
            self._container.close()
            raise
        self.rate: Fraction | None = self._stream.average_rate or None

    def frames(self) -> Iterator[tuple[Fraction, NDArray[np.uint8]]]:
        """Yield the time in seconds and the pixels, (height, width, 3) uint8 RGB, of each frame.

        Raises:
            InputError: the file is damaged, truncated, too large, HDR, or rotated by an angle that is not a multiple
                of 90 degrees, or a frame has no time.
        """
        count, broken, time = 0, False, None
        try:
            for packet in self._container.demux(self._stream):
                broken = broken or packet.is_corrupt
                for frame in packet.decode():
                    broken = broken or frame.is_corrupt
                    time = self._time(frame, time)
                    yield time, self._pixels(frame)
                    count += 1
        except self._av.FFmpegError as error:
            raise InputError(
                self.source, f"it is broken after {count} frames ({error.strerror})", "get or export it again"
            ) from error
        if broken:
            raise InputError(self.source, f"it is broken or cut off within {count} frames", "get or export it again")

    def empty(self) -> InputError:
        """The error for a file without frames."""
        return InputError(self.source, "it has no frame", "give a video with at least one picture")

    def __enter__(self) -> Film:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._container.close()

    def _video_stream(self) -> Any:
        if not self._container.streams.video:
            kinds = sorted({stream.type for stream in self._container.streams})
            has = f"only {' and '.join(kinds)}" if kinds else "nothing at all"
            raise InputError(self.source, f"there is no video in it, {has}", "give a video file")
        stream = self._container.streams.video[0]
        context = stream.codec_context
        if context is None:
            raise MissingCodecError(f"{self.source}: PyAV has no decoder for it; convert it to H.264")
        self._check_size(context.width, context.height)
        stream.thread_type = "AUTO"
        return stream

    def _check_size(self, width: int, height: int) -> None:
        if width * height > MAX_PIXELS:
            raise InputError(
                self.source, f"it is too large ({width} x {height})", f"scale it down to {MAX_PIXELS} pixels a frame"
            )

    def _time(self, frame: Any, before: Fraction | None) -> Fraction:
        """Containers without timestamps (AVI, raw H.264) have a constant rate instead."""
        if frame.pts is not None and self._container.format.name != "avi":
            return Fraction(frame.pts * frame.time_base)
        if self.rate is None:
            raise InputError(self.source, "its pictures have no times", "put it into a container, such as MP4")
        return Fraction(0) if before is None else before + 1 / self.rate

    def _pixels(self, frame: Any) -> NDArray[np.uint8]:
        self._check_size(frame.width, frame.height)
        name = NAMES.get(int(self._stream.codec_context.color_trc))
        if name is not None:
            raise InputError(self.source, f"it is HDR ({name}), and models take SDR", _TONE_MAP)
        unlabeled = int(frame.colorspace) == _UNSPECIFIED and frame.height >= _HD_ROWS
        matrix = _BT709 if unlabeled else None  # the default of players
        width = max(round(frame.width * (self._stream.sample_aspect_ratio or 1)), 1)  # in square pixels
        self._check_size(width, frame.height)
        rgb = frame.reformat(width, format="rgb24", src_colorspace=matrix, interpolation=_ACCURATE).to_ndarray()
        return np.ascontiguousarray(self._turned(rgb, frame))

    def _turned(self, pixels: NDArray[np.uint8], frame: Any) -> NDArray[np.uint8]:
        """Apply the display matrix (ISO/IEC 14496-12, 6.2.2): column' = a x + c y, row' = b x + d y."""
        matrices = [bytes(data) for data in frame.side_data if data.type.name == "DISPLAYMATRIX"]
        if not matrices:
            return pixels
        a, b, _, c, d = (int(value) for value in np.frombuffer(matrices[0], np.int32)[:5])
        if b == c == 0 and a and d:
            columns, rows = a, d
        elif a == d == 0 and b and c:
            pixels, columns, rows = pixels.transpose(1, 0, 2), c, b
        else:
            raise InputError(self.source, "its rotation is not a multiple of 90 degrees", "export it upright")
        return pixels[:: 1 if rows > 0 else -1, :: 1 if columns > 0 else -1]


MAX_BYTES = 2 << 30

_EVENNESS = 0.25  # frames; containers with millisecond timestamps shift frames by as much


@dataclass(frozen=True, eq=False)
class Video:
    """A loaded video.

    Attributes:
        frames: (frames, height, width, 3) uint8 RGB.
        fps: frames per second.
    """

    frames: NDArray[np.uint8]
    fps: Fraction


def load_first_frame(
    source: str | os.PathLike[str], *, cache: Cache | None = None, sha256: str | None = None
) -> NDArray[np.uint8]:
    """Load the first frame of a video, reading no more than necessary.

    Arguments and errors are those of :func:`load_video`.

    Returns:
        (height, width, 3) uint8 RGB.
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
    max_bytes: int = MAX_BYTES,
    cache: Cache | None = None,
    sha256: str | None = None,
) -> Video:
    """Load a video, or the beginning of one, with its rotation applied.

    Args:
        source: a path, or an http or https URL.
        fps: target rate; each output frame is the one displayed at its time. By default the rate of the video, which
            must then be constant.
        max_frames: maximum number of frames.
        max_bytes: maximum size of the result.
        cache: see :func:`~.cache.local_path`.
        sha256: see :func:`~.cache.local_path`.

    Raises:
        InputError: it is not a video, has no frames, is damaged, truncated, too large or HDR (PQ or HLG), or its size
            or rate varies.
        FileNotFoundError: the file does not exist.
        FetchError: the download failed.
        MissingCodecError: PyAV has no decoder for it.
        MissingDependencyError: PyAV is missing.
        ValueError: ``fps`` or ``max_frames`` is invalid.
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
    """The frame displayed at each tick. The last frame is displayed as long as the one before it."""
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
        interval = 1 / film.rate  # the exact rate, if the timestamps are coarse
    for at, time in enumerate(times):
        if interval <= 0 or abs(time - times[0] - at * interval) > _EVENNESS * interval:
            raise InputError(
                film.source,
                f"its frame rate varies (frame {at} at {float(time):.3f} s)",
                "say with fps which one to use",
            )
    return 1 / interval
