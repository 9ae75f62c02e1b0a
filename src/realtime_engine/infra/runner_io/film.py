"""A film that is being decoded."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from types import TracebackType
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from ..mp4 import MissingCodecError
from .errors import InputError
from .hdr import NAMES
from .images import MOST_PIXELS

_UNSPECIFIED, _BT709 = 2, 1
_HD_ROWS = 720
_ACCURATE = 0x2 | 0x2000 | 0x40000  # swscale's bilinear, full_chroma_int, accurate_rnd: 4 to 10 dB finer
_TONE_MAP = (
    "map it to SDR first: ffmpeg -i IN -vf zscale=t=linear:npl=100,tonemap=hable,zscale=p=709:t=709:m=709:r=tv,"
    "format=yuv420p OUT"
)


class Film:
    """Decodes the first video stream of a file; a context manager.

    Files that a playlist names are not opened.

    Args:
        av: the module.
        file: what to read, which can seek.
        source: what it is called in errors.

    Attributes:
        source: as given.
        rate: frames per second as the file has it, if it does.

    Raises:
        InputError: it is no film, or has no video.
        MissingCodecError: there is no decoder for it.
    """

    def __init__(self, av: Any, file: IO[bytes], source: object) -> None:
        self.source = source
        self._av = av
        try:
            self._container = av.open(file, container_options={"protocol_whitelist": "none"}, metadata_errors="replace")
        except (av.FFmpegError, OSError) as error:
            raise InputError(
                source, f"it is not a film, or its beginning or end is missing ({error.strerror})", "get it again"
            ) from error
        try:
            self._stream = self._video_stream()
        except BaseException:
            self._container.close()
            raise
        self.rate: Fraction | None = self._stream.average_rate or None

    def frames(self) -> Iterator[tuple[Fraction, NDArray[np.uint8]]]:
        """The time in seconds and the pixels, (height, width, 3) uint8 RGB, of each picture.

        Raises:
            InputError: it is broken, cut off, too large, HDR, turned by no right angle, or a picture has no time.
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
        """What to raise if there was no frame."""
        return InputError(self.source, "it has no frame", "give a film with at least one picture")

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
            raise InputError(self.source, f"there is no video in it, {has}", "give a film")
        stream = self._container.streams.video[0]
        context = stream.codec_context
        if context is None:
            raise MissingCodecError(f"{self.source}: PyAV has no decoder for it; convert it to H.264")
        self._check_size(context.width, context.height)
        stream.thread_type = "AUTO"
        return stream

    def _check_size(self, width: int, height: int) -> None:
        if width * height > MOST_PIXELS:
            raise InputError(
                self.source, f"it is too large ({width} x {height})", f"scale it down to {MOST_PIXELS} pixels a frame"
            )

    def _time(self, frame: Any, before: Fraction | None) -> Fraction:
        """Containers without times of pictures (AVI, bare H.264) have a steady rate instead."""
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
        unlabelled = int(frame.colorspace) == _UNSPECIFIED and frame.height >= _HD_ROWS
        matrix = _BT709 if unlabelled else None  # what players assume too
        width = max(round(frame.width * (self._stream.sample_aspect_ratio or 1)), 1)  # of square pixels
        self._check_size(width, frame.height)
        rgb = frame.reformat(width, format="rgb24", src_colorspace=matrix, interpolation=_ACCURATE).to_ndarray()
        return np.ascontiguousarray(self._turned(rgb, frame))

    def _turned(self, pixels: NDArray[np.uint8], frame: Any) -> NDArray[np.uint8]:
        """As the display matrix (ISO/IEC 14496-12, 6.2.2) says: column' = a x + c y, row' = b x + d y."""
        matrices = [bytes(data) for data in frame.side_data if data.type.name == "DISPLAYMATRIX"]
        if not matrices:
            return pixels
        a, b, _, c, d = (int(value) for value in np.frombuffer(matrices[0], np.int32)[:5])
        if b == c == 0 and a and d:
            columns, rows = a, d
        elif a == d == 0 and b and c:
            pixels, columns, rows = pixels.transpose(1, 0, 2), c, b
        else:
            raise InputError(self.source, "it is to be turned by no right angle", "export it upright")
        return pixels[:: 1 if rows > 0 else -1, :: 1 if columns > 0 else -1]
