"""Which encoder a codec gets: tried out once, when the server starts."""

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
        h264: the one for H.264.
        copies: where the copies of all of them are counted.
    """

    def __init__(self, h264: type[PyavEncoder] = H264Encoder, copies: CopyStats | None = None) -> None:
        self.h264 = h264
        self._copies = copies

    def __repr__(self) -> str:
        return f"Encoders(h264={self.h264.library!r})"

    def __call__(self, codec: Codec, fps: float = 30.0, bitrate: int | None = None) -> VideoEncoder:
        """The encoder of ``codec``; the arguments are those of :class:`~.pyav_encoder.PyavEncoder`."""
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
    """The encoders of ``choice``; libx264 if no hardware passes :func:`probe`, and one log line says why.

    Args:
        choice: ``auto`` for the first of ``hardware`` that works, ``software`` for none, or the name of one.

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
    logger.log(level, "H264 is encoded by libx264, since no hardware does it (%s)", "; ".join(faults))
    return Encoders(copies=copies)


def probe(kind: type[PyavEncoder]) -> str | None:
    """Encode two pictures, the second as a forced keyframe. ``None`` when that gave a stream that viewers can use;
    else what is wrong.
    """
    if kind.library not in av.codecs_available:
        return "this build of FFmpeg does not have it"
    encoder = kind()
    try:
        planes = np.full(i420_shape(_PROBE_HEIGHT, _PROBE_WIDTH), 128, np.uint8)
        given = [encoder.encode(planes, at_ns=0), encoder.encode(planes, True, at_ns=_FRAME_NS)]
    except (av.FFmpegError, OSError, ValueError, NotImplementedError) as error:
        return getattr(error, "strerror", None) or str(error)
    finally:
        encoder.close()
    return _fault_of(given)


def _fault_of(given: list[Packets]) -> str | None:
    if [len(packets) for packets in given] != [1, 1]:
        return f"two pictures gave {[len(packets) for packets in given]} packets; it must not hold any back"
    if not all(packet.is_keyframe for packets in given for packet in packets):
        return "it gave no keyframe when one was asked for"
    if not all(bytes(packet).startswith(_START_CODES) for packets in given for packet in packets):
        return "its stream is not Annex B"
    return None


class FallbackEncoder:
    """Hardware until it fails, software from then on: a device may have room for a few streams only, or be lost."""

    def __init__(self, hardware: PyavEncoder, software: PyavEncoder) -> None:
        self._now = hardware
        self._software = software

    def encode(self, planes: NDArray[np.uint8], force_keyframe: bool = False, *, at_ns: int) -> Packets:
        try:
            return self._now.encode(planes, force_keyframe, at_ns=at_ns)
        except (av.FFmpegError, OSError) as error:
            if self._now is self._software:
                raise
            logger.warning("%s failed (%s): this stream goes on with libx264", self._now.library, error)
            self._now.close()
            self._now = self._software
            return self._now.encode(planes, force_keyframe, at_ns=at_ns)

    def set_bitrate(self, bits_per_second: int) -> None:
        for encoder in (self._now, self._software):
            encoder.set_bitrate(bits_per_second)

    def close(self) -> None:
        for encoder in (self._now, self._software):
            encoder.close()
