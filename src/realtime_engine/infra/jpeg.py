"""JPEG: the encoder, and a publisher that encodes each frame once for all viewers."""

from __future__ import annotations

import asyncio
import io
import logging
from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..core.clock import MONOTONIC
from ..core.loglimit import LogLimiter
from .frame import Frame, FrameId
from .publisher import FramePublisher, FrameSubscription, LatestPublisher, PublisherClosed

logger = logging.getLogger(__name__)

_Encode = Callable[[NDArray[np.uint8], int], bytes]


class JpegEncoder:
    """Encodes pictures as baseline JPEG (JFIF) with 4:2:0 chroma. Thread-safe.

    Uses simplejpeg (libjpeg-turbo, fast DCT); without it OpenCV, then Pillow, with a warning in the log.

    Args:
        quality: 1 (small) to 100 (good).

    Attributes:
        quality: see above.
        backend: name of the module in use.

    Raises:
        ValueError: ``quality`` out of range.
        ImportError: none of the three is installed.
    """

    def __init__(self, quality: int = 80) -> None:
        if not isinstance(quality, int) or isinstance(quality, bool) or not 1 <= quality <= 100:
            raise ValueError(f"JPEG quality must be an integer from 1 to 100, got {quality!r}")
        self.quality = quality
        self.backend, self._encode = _load_backend()

    def __repr__(self) -> str:
        return f"JpegEncoder(quality={self.quality}, backend={self.backend!r})"

    def encode(self, pixels: NDArray[np.uint8]) -> bytes:
        """Encode ``pixels``, (height, width, 3), uint8, RGB; copied first if not C-contiguous.

        Raises:
            ValueError: another shape or dtype.
        """
        if pixels.dtype != np.uint8 or pixels.ndim != 3 or pixels.shape[2] != 3 or not pixels.size:
            raise ValueError(
                f"cannot encode an array of shape {pixels.shape} and dtype {pixels.dtype} as JPEG: "
                "expected (height, width, 3), uint8"
            )
        return self._encode(np.ascontiguousarray(pixels), self.quality)


def _load_backend() -> tuple[str, _Encode]:
    loaders = {"simplejpeg": _load_simplejpeg, "cv2": _load_cv2, "PIL": _load_pillow}
    for name, load in loaders.items():
        try:
            encode = load()
        except ImportError:
            continue
        if name != "simplejpeg":
            logger.warning("JPEG is encoded by %s; simplejpeg, which is faster, is not installed", name)
        return name, encode
    raise ImportError("no JPEG encoder: install simplejpeg (pip install 'realtime-engine[serve]')", name="simplejpeg")


def _load_simplejpeg() -> _Encode:
    import simplejpeg

    def encode(pixels: NDArray[np.uint8], quality: int) -> bytes:
        return bytes(simplejpeg.encode_jpeg(pixels, quality, "RGB", "420", fastdct=True))

    return encode


def _load_cv2() -> _Encode:
    import cv2

    def encode(pixels: NDArray[np.uint8], quality: int) -> bytes:
        bgr = cv2.cvtColor(pixels, cv2.COLOR_RGB2BGR)
        return cv2.imencode(".jpg", bgr, [cv2.IMWRITE_JPEG_QUALITY, quality])[1].tobytes()

    return encode


def _load_pillow() -> _Encode:
    from PIL import Image

    def encode(pixels: NDArray[np.uint8], quality: int) -> bytes:
        out = io.BytesIO()
        Image.fromarray(pixels).save(out, "JPEG", quality=quality, subsampling="4:2:0")
        return out.getvalue()

    return encode


@dataclass(frozen=True, slots=True, eq=False)
class JpegFrame:
    """An encoded picture and the identity of its frame."""

    data: bytes
    id: FrameId


class JpegPublisher(LatestPublisher[JpegFrame]):
    """The frames of one session as JPEG, each encoded once for all viewers, and only while there are any.

    Frames are encoded on ``pool``, one at a time. An encode that starts takes the newest frame, so a busy pool does not
    encode superseded ones. All viewers of this publisher count as one viewer of ``frames``; when that is closed, they
    get the last picture and then the end.

    Args:
        frames: the source; its epoch applies here too.
        encoder: encodes the pictures.
        pool: threads to encode on, shared by sessions.
        on_encoded: called with the identity of each frame that was encoded.

    Attributes:
        encodes: pictures encoded so far.
    """

    def __init__(
        self,
        frames: FramePublisher,
        encoder: JpegEncoder,
        pool: Executor,
        on_encoded: Callable[[FrameId], None] = lambda _: None,
    ) -> None:
        super().__init__(on_watched=self._watch)
        self._on_encoded = on_encoded
        self._frames = frames
        self._encoder = encoder
        self._pool = pool
        self._task: asyncio.Task[None] | None = None
        self._arrivals: FrameSubscription | None = None
        self._log = LogLimiter(logger, MONOTONIC)
        self.encodes = 0

    @property
    def epoch(self) -> int:
        """The newest epoch of this publisher and its source."""
        return max(self._epoch, self._frames.epoch)

    def _watch(self, watched: bool) -> None:
        if watched:
            try:
                self._arrivals = self._frames.subscribe()
            except PublisherClosed:
                self.close()
            else:
                self._task = self._loop.create_task(self._encode_all(self._arrivals))
        elif self._task is not None and self._arrivals is not None:
            self._task.cancel()
            self._arrivals.close()
            self.clear()

    async def _encode_all(self, arrivals: FrameSubscription) -> None:
        done: Frame | None = None
        async for _ in arrivals:
            done = await self._encode_next(done)
        self.close()

    async def _encode_next(self, done: Frame | None) -> Frame | None:
        try:
            encoded = await self._loop.run_in_executor(self._pool, self._encode_newest, done)
        except Exception as error:
            self._log.error("a frame could not be encoded as JPEG", error)
            return done
        if encoded is None:
            return done
        frame, data = encoded
        self.encodes += 1
        self._on_encoded(frame.id)
        self.publish(JpegFrame(data, frame.id))
        return frame

    def _encode_newest(self, done: Frame | None) -> tuple[Frame, bytes] | None:
        frame = self._frames.latest
        if frame is None or frame is done:
            return None
        return frame, self._encoder.encode(frame.pixels)
