"""MP4 files, written picture by picture; the memory used does not grow with the video, except for its index."""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .atomic_file import AtomicFile, check_free
from .extras import require

_log = logging.getLogger(__name__)

_ENCODER = "libx264"
_SMPTE170M = 6  # BT.601 in ITU-T H.273; players take unlabeled video for BT.709
_SWS_BT601 = 5  # the same in swscale
_LIMITED = 1
_FRAGMENTS = "frag_keyframe+empty_moov+default_base_moof"


class MissingCodecError(RuntimeError):
    """The installed FFmpeg libraries cannot encode or decode this format."""


class Mp4Writer:
    """Writes H.264 in MP4. One call at a time; a context manager, which discards the file if its block raises.

    A plain file has its index in front (``+faststart``) and is created under its name when it is complete; after a
    failure there is no such file. A fragmented file is written under its name from the start, and after a crash or on a
    full disk it is playable up to its last complete fragment (of a second).

    Chroma is stored at half the size (4:2:0). Odd sides are padded by one row or column that repeats the last.

    Args:
        path: the file, in an existing directory.
        fps: frames per second, above 0, an integer or a fraction.
        overwrite: replace an existing file.
        fragmented: see above.
        crf: the constant rate factor of x264, from 0 (best) to 51.

    Attributes:
        path: the file.
        frames: pictures written so far.

    Raises:
        FileExistsError: there is such a file, and ``overwrite`` is false.
        OSError: it cannot be written there.
        ValueError: a rate or factor out of range.
        MissingCodecError: no H.264 encoder.
        MissingDependencyError: no PyAV.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        fps: Fraction | int,
        *,
        overwrite: bool = False,
        fragmented: bool = False,
        crf: int = 12,
    ) -> None:
        self.path = Path(path)
        self.frames = 0
        self._fps = _checked_fps(fps)
        if not 0 <= crf <= 51:
            raise ValueError(f"crf must be from 0 to 51, got {crf!r}")
        self._crf = crf
        self._av = require("av", "serve", "write MP4")
        self._check_encoder()
        self._shape: tuple[int, ...] = ()
        self._container: Any = None
        self._stream: Any = None
        self._closed = False
        self._atomic = None if fragmented else AtomicFile(self.path, overwrite=overwrite)
        self._claim(overwrite)

    def write(self, pixels: NDArray[np.uint8]) -> None:
        """Append a picture: (height, width, 3) uint8 RGB, of the same size as the first.

        Raises:
            ValueError: another shape or dtype, or the writer is closed.
            OSError: the disk is full or failed. The writer is then closed, and a plain file discarded.
        """
        if self._closed:
            raise ValueError(f"cannot write to {self.path}: it is closed")
        self._check_picture(pixels)
        with self._closing_on_failure():
            if self._container is None:
                self._open(pixels.shape)
            self._container.mux(self._stream.encode(self._frame(pixels)))
        self.frames += 1

    def close(self) -> None:
        """Complete the file. Idempotent.

        Raises:
            ValueError: no picture was written; there is no file.
            OSError: the disk is full or failed; a plain file is discarded.
        """
        if self._closed:
            return
        if self._container is None:
            self.discard()
            raise ValueError(f"no picture was written to {self.path}; an MP4 file needs at least one")
        with self._closing_on_failure():
            self._finish()
            if self._atomic is not None:
                self._atomic.commit()
        self._closed = True

    def discard(self) -> None:
        """Close without completing: a plain file is removed, a fragmented one kept as it is. Idempotent."""
        if not self._closed:
            self._abandon(self._finish)

    def __enter__(self) -> Mp4Writer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if kind is None:
            self.close()
        else:
            self.discard()

    def _claim(self, overwrite: bool) -> None:
        """Check at the start that the file can be written, not after an hour of frames."""
        if self._atomic is None:
            check_free(self.path, overwrite=overwrite)
            open(self.path, "wb" if overwrite else "xb").close()
        else:
            open(self._atomic.temporary, "xb").close()

    def _abandon(self, end: Callable[[], None]) -> None:
        self._closed = True
        if self._container is not None:
            try:
                end()
            except self._av.FFmpegError as error:
                _log.info("%s was not finished: %s", self.path, error)
        if self._container is None or self._atomic is not None:
            self._remove()

    def _remove(self) -> None:
        if self._atomic is None:
            self.path.unlink(missing_ok=True)
        else:
            self._atomic.discard()

    def _open(self, shape: tuple[int, ...]) -> None:
        self._shape = shape
        height, width = shape[0] + shape[0] % 2, shape[1] + shape[1] % 2
        target = self.path if self._atomic is None else self._atomic.temporary
        flags = _FRAGMENTS if self._atomic is None else "+faststart"
        flush = "1" if self._atomic is None else "0"
        self._container = self._av.open(
            str(target), "w", format="mp4", container_options={"movflags": flags, "flush_packets": flush}
        )
        options = {"preset": "veryfast", "crf": str(self._crf), "forced-idr": "1"}
        if self._atomic is None:
            options["tune"] = "zerolatency"  # no frames are delayed in the encoder, where a crash would lose them
        stream = self._container.add_stream(_ENCODER, rate=self._fps, options=options)
        stream.width, stream.height, stream.pix_fmt = width, height, "yuv420p"
        context = stream.codec_context
        context.time_base = 1 / self._fps
        context.gop_size = max(round(self._fps), 1)
        context.colorspace = context.color_primaries = context.color_trc = _SMPTE170M
        context.color_range = _LIMITED
        self._stream = stream

    def _frame(self, pixels: NDArray[np.uint8]) -> Any:
        """A 4:2:0 frame by swscale, which averages chroma: 3 dB better than the fast conversion of live video."""
        height, width = pixels.shape[:2]
        if height % 2 or width % 2:
            pixels = np.pad(pixels, ((0, height % 2), (0, width % 2), (0, 0)), mode="edge")
        rgb = self._av.VideoFrame.from_ndarray(np.ascontiguousarray(pixels), format="rgb24")
        frame = rgb.reformat(format="yuv420p", dst_colorspace=_SWS_BT601, dst_color_range=_LIMITED)
        frame.pts = self.frames
        frame.time_base = 1 / self._fps
        frame.colorspace, frame.color_range = _SMPTE170M, _LIMITED
        return frame

    def _finish(self) -> None:
        try:
            self._container.mux(self._stream.encode(None))
        finally:
            self._container.close()

    def _close_container(self) -> None:
        if self._container is not None:
            self._container.close()

    @contextlib.contextmanager
    def _closing_on_failure(self) -> Iterator[None]:
        """Close the file if the block fails, and name it in the error."""
        try:
            yield
        except self._av.FFmpegError as error:
            self._abandon(self._close_container)
            raise OSError(
                getattr(error, "errno", None),
                f"cannot write {self.path} after {self.frames} pictures: {error.strerror}; "
                "free some space, or write elsewhere",
            ) from error
        except BaseException:
            self._abandon(self._close_container)
            raise

    def _check_picture(self, pixels: NDArray[np.uint8]) -> None:
        shape = self._shape or "(height, width, 3)"
        fits = isinstance(pixels, np.ndarray) and pixels.ndim == 3 and pixels.shape[2] == 3 and pixels.size > 0
        if not fits or pixels.dtype != np.uint8 or (self._shape and pixels.shape != self._shape):
            given = f"{getattr(pixels, 'shape', type(pixels).__name__)} {getattr(pixels, 'dtype', '')}".strip()
            raise ValueError(f"{self.path} expects pictures of {shape} uint8 RGB, got {given}")

    def _check_encoder(self) -> None:
        if _ENCODER not in self._av.codecs_available:
            raise MissingCodecError(
                f"cannot write {self.path}: this build of PyAV has no encoder {_ENCODER!r}; install the wheel from PyPI"
            )


def _checked_fps(fps: Fraction | int) -> Fraction:
    if isinstance(fps, bool) or not isinstance(fps, int | Fraction):
        raise ValueError(f"fps must be an integer or a Fraction such as Fraction(30000, 1001), got {fps!r}")
    if fps <= 0:
        raise ValueError(f"fps must be above 0, got {fps}")
    return Fraction(fps)
