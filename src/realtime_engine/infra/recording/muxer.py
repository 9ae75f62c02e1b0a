"""Fragmented MP4 from H.264 packets: the muxer, the file, and the errors of recording."""

from __future__ import annotations

import fractions
import os
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import av
from av.video.codeccontext import VideoCodecContext
from av.video.stream import VideoStream

from ...core.errors import RealtimeEngineError
from ..webrtc import EncodedFrame

_CLOCK_HZ = 90_000
_TIME_BASE = fractions.Fraction(1, _CLOCK_HZ)
_SEQUENCE, _PICTURE = 7, 8  # NAL unit types of parameter sets
_OPTIONS = {
    "movflags": "frag_keyframe+empty_moov+default_base_moof+delay_moov",
    "video_track_timescale": str(_CLOCK_HZ),
    "flush_packets": "1",
}


def parameter_sets(data: bytes) -> tuple[bytes, ...]:
    """The sequence and picture parameter sets of an access unit in Annex B (ITU-T H.264, section 7.4.1), in order."""
    return tuple(unit for unit in _units(data) if unit[0] & 0x1F in (_SEQUENCE, _PICTURE))


def picture_size(keyframe: bytes) -> tuple[int, int]:
    """Width and height of the picture, in pixels.

    Raises:
        ValueError: it cannot be decoded.
    """
    decoder = av.CodecContext.create("h264", "r")
    assert isinstance(decoder, VideoCodecContext)
    try:
        frames = [*decoder.decode(av.Packet(keyframe)), *decoder.decode(None)]
    except av.FFmpegError as error:
        raise ValueError(f"a recording begins with a keyframe that can be decoded: {error}") from error
    if not frames:
        raise ValueError("a recording begins with a keyframe that can be decoded, got no picture")
    return frames[0].width, frames[0].height


class FragmentMuxer:
    """Makes a fragmented MP4 (ISO/IEC 14496-12, section 8.8) in memory from one H.264 stream in Annex B.

    A fragment reaches from one keyframe to the next and is independent of others, so a file is playable up to the last
    fragment written. Times are those of the packets, relative to the first.

    Args:
        width: of the picture, in pixels.
        height: of the picture, in pixels.

    Attributes:
        seconds: from the first frame to the newest.
    """

    def __init__(self, width: int, height: int) -> None:
        self._sink = _Sink()
        self._container = av.open(self._sink, "w", format="mp4", options=_OPTIONS)
        self._stream = self._container.add_mux_stream("h264", width=width, height=height)
        self._stream.time_base = _TIME_BASE
        self._first_pts: int | None = None
        self.seconds = 0.0

    def add(self, encoded: EncodedFrame) -> bytes:
        """Add a frame, a keyframe at first. Returns the previous fragment when the frame completes it, else nothing.

        The packet is copied, since viewers are sent it at the same time.
        """
        pts = encoded.packet.pts
        assert pts is not None
        self._first_pts = pts if self._first_pts is None else self._first_pts
        packet = cast("av.Packet[av.VideoStream]", av.Packet(bytes(encoded.packet)))
        packet.pts = packet.dts = pts - self._first_pts
        packet.time_base = _TIME_BASE
        packet.is_keyframe = encoded.packet.is_keyframe
        packet.stream = cast("VideoStream", self._stream)
        self._container.mux_one(packet)
        self.seconds = (pts - self._first_pts) / _CLOCK_HZ
        return self._sink.drain()

    def finish(self) -> bytes:
        """The last fragment and the table of all fragments; ends the muxer."""
        self._container.close()
        return self._sink.drain()


class _Sink:
    """Collects what libav writes."""

    def __init__(self) -> None:
        self._data = bytearray()

    def write(self, data: bytes) -> int:
        self._data += data
        return len(data)

    def drain(self) -> bytes:
        data, self._data = bytes(self._data), bytearray()
        return data


def _units(data: bytes) -> Iterator[bytes]:
    """NAL units, without start codes. A NAL unit cannot contain a start code."""
    for part in data.split(b"\x00\x00\x01")[1:]:
        unit = part.rstrip(b"\x00")  # the zero of a longer start code, or trailing ones
        if unit:
            yield unit


class FragmentFile:
    """A new file that always ends with a whole fragment.

    Attributes:
        size: in bytes.

    Raises:
        FileExistsError: there is such a file.
        OSError: it cannot be created.
    """

    def __init__(self, path: Path) -> None:
        self.size = 0
        self._path = path
        self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)

    def append(self, fragment: bytes) -> None:
        """Write a fragment to the operating system, so that it survives this process. May block on the disk.

        Raises:
            OSError: it cannot be written; nothing of the fragment remains in the file.
        """
        rest = memoryview(fragment)
        try:
            while rest:
                rest = rest[os.write(self._fd, rest) :]
        except OSError:
            os.ftruncate(self._fd, self.size)
            os.lseek(self._fd, self.size, os.SEEK_SET)
            raise
        self.size += len(fragment)

    def close(self) -> None:
        """Close the file; an empty one is removed."""
        os.close(self._fd)
        if not self.size:
            self._path.unlink(missing_ok=True)


class RecordingError(RealtimeEngineError):
    """Base of the errors of recordings."""


class RecordingRuns(RecordingError):
    """The session is already being recorded, or the file is still being written."""


class StorageFull(RecordingError):
    """Recordings have reached their size limit."""
