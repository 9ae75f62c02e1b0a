"""Chooses the encoder of each codec, once, when the server starts."""

from __future__ import annotations

import logging
from collections.abc import Sequence

import av
import numpy as np
from numpy.typing import NDArray

from ..color import i420_shape
from ..copy_stats import CopyStats
from .base import Codec, Packets, PyavEncoder, VideoEncoder
from .h264 import H264Encoder
from .hardware import HARDWARE_ENCODERS
from .vp8 import Vp8Encoder

logger = logging.getLogger(__name__)

AUTO, SOFTWARE = "auto", "software"
ENCODER_CHOICES = (AUTO, SOFTWARE, *(kind.library for kind in HARDWARE_ENCODERS))

_PROBE_HEIGHT, _PROBE_WIDTH = 180, 320
_FRAME_NS = 33_333_333
_START_CODES = (b"\0\0\1", b"\0\0\0\1")


class Encoders:
    """Makes the encoders of a server.

    Args:
        h264: the class for H.264.
        copies: counts the copies of all encoders.
    """

    def __init__(self, h264: type[PyavEncoder] = H264Encoder, copies: CopyStats | None = None) -> None:
        self.h264 = h264
        self._copies = copies

    def __repr__(self) -> str:
        return f"Encoders(h264={self.h264.library!r})"

    def __call__(self, codec: Codec, fps: float = 30.0, bitrate: int | None = None) -> VideoEncoder:
        """A new encoder of ``codec``; the other arguments are those of :class:`PyavEncoder`."""
        if codec is Codec.VP8:
            return Vp8Encoder(fps, bitrate, self._copies)
        software = H264Encoder(fps, bitrate, self._copies)
        if self.h264 is H264Encoder:
            return software
        return FallbackEncoder(self.h264(fps, bitrate, self._copies), software)


SOFTWARE_ENCODERS = Encoders()


def choose_encoders(
    choice: str = AUTO, copies: CopyStats | None = None, hardware: Sequence[type[PyavEncoder]] = HARDWARE_ENCODERS
) -> Encoders:
    """The encoders of ``choice``: libx264 if no hardware passes :func:`probe`, for a reason that is logged.

    Args:
        choice: ``auto`` for the first of ``hardware`` that works, ``software`` for none, or the name of one.
        copies: counts the copies of all encoders.
        hardware: classes to choose from, by preference.

    Raises:
        ValueError: an unknown choice.
    """
    names = [kind.library for kind in hardware]
    if choice not in (AUTO, SOFTWARE, *names):
        raise ValueError(f"encoder must be one of {', '.join((AUTO, SOFTWARE, *names))}, got {choice!r}")
    if choice == SOFTWARE:
        return Encoders(copies=copies)
    faults = []
    for kind in hardware:
        if choice in (AUTO, kind.library):
            fault = probe(kind)
            if fault is None:
                logger.info("H264 is encoded by %s", kind.library)
                return Encoders(kind, copies)
            faults.append(f"{kind.library}: {fault}")
    level = logging.INFO if choice == AUTO else logging.WARNING
    logger.log(level, "H264 is encoded by libx264; no hardware encoder is available (%s)", "; ".join(faults))
    return Encoders(copies=copies)


def probe(kind: type[PyavEncoder]) -> str | None:
    """Encode two pictures, the second as a forced keyframe; ``None`` if viewers can use the stream, else the fault."""
    if kind.library not in av.codecs_available:
        return "not in this build of FFmpeg"
    encoder = kind()
    try:
        planes = np.full(i420_shape(_PROBE_HEIGHT, _PROBE_WIDTH), 128, np.uint8)
        packets = [encoder.encode(planes, at_ns=0), encoder.encode(planes, True, at_ns=_FRAME_NS)]
    except (av.FFmpegError, OSError, ValueError, NotImplementedError) as error:
        return getattr(error, "strerror", None) or str(error)
    finally:
        encoder.close()
    return _fault_of(packets)


def _fault_of(of_pictures: list[Packets]) -> str | None:
    counts = [len(packets) for packets in of_pictures]
    if counts != [1, 1]:
        return f"it delays frames: two pictures gave {counts} packets"
    if not all(packet.is_keyframe for packets in of_pictures for packet in packets):
        return "it ignores forced keyframes"
    if not all(bytes(packet).startswith(_START_CODES) for packets in of_pictures for packet in packets):
        return "its stream is not Annex B"
    return None


class FallbackEncoder:
    """A hardware encoder until it fails, then software: a device may support a few streams only, or be lost."""

    def __init__(self, hardware: PyavEncoder, software: PyavEncoder) -> None:
        self._current = hardware
        self._software = software

    def encode(self, planes: NDArray[np.uint8], force_keyframe: bool = False, *, at_ns: int) -> Packets:
        """Encode a picture, as :meth:`VideoEncoder.encode`."""
        try:
            return self._current.encode(planes, force_keyframe, at_ns=at_ns)
        except (av.FFmpegError, OSError) as error:
            if self._current is self._software:
                raise
            logger.warning("%s failed (%s): this stream continues with libx264", self._current.library, error)
            self._current.close()
            self._current = self._software
            return self._current.encode(planes, force_keyframe, at_ns=at_ns)

    def set_bitrate(self, bits_per_second: int) -> None:
        """Set the target bitrate."""
        for encoder in (self._current, self._software):
            encoder.set_bitrate(bits_per_second)

    def close(self) -> None:
        """Free both codecs."""
        for encoder in (self._current, self._software):
            encoder.close()
