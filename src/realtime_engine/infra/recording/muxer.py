"""H.264 packets into fragments of an MP4 file, in memory."""

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
_SEQUENCE, _PICTURE = 7, 8  # types of NAL units: parameter sets
_OPTIONS = {
    "movflags": "frag_keyframe+empty_moov+default_base_moof+delay_moov",
    "video_track_timescale": str(_CLOCK_HZ),
    "flush_packets": "1",
}


def parameter_sets(data: bytes) -> tuple[bytes, ...]:
    """The sequence and picture parameter sets of an access unit in Annex B (ITU-T H.264, section 7.4.1), in order."""
    return tuple(unit for unit in _units(data) if unit[0] & 0x1F in (_SEQUENCE, _PICTURE))


def picture_size(keyframe: bytes) -> tuple[int, int]:
    """Width and height of what it shows, in pixels. Errors: ``ValueError`` if nobody can tell."""
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
    """Makes a fragmented MP4 (ISO/IEC 14496-12, section 8.8) of one stream of H.264 in Annex B.

    A fragment reaches from one keyframe to the next and needs no other, so a file is playable up to the last that was
    written. Times are those of the packets, counted from the first.
    """

    def __init__(self, width: int, height: int) -> None:
        self._sink = _Sink()
        self._container = av.open(self._sink, "w", format="mp4", options=_OPTIONS)
        self._stream = self._container.add_mux_stream("h264", width=width, height=height)
        self._stream.time_base = _TIME_BASE
        self._first_pts: int | None = None
        self.seconds = 0.0

    def add(self, encoded: EncodedFrame) -> bytes:
        """Take a packet in, a keyframe at first. Returns the fragment before it when that is complete, else nothing.

        The packet is copied, since others send it at the same time.
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
        return self._sink.take()

    def finish(self) -> bytes:
        """The last fragment and the table of all fragments. Nothing can be added from now on."""
        self._container.close()
        return self._sink.take()


class _Sink:
    """What libav writes, until somebody takes it."""

    def __init__(self) -> None:
        self._data = bytearray()

    def write(self, data: bytes) -> int:
        self._data += data
        return len(data)

    def take(self) -> bytes:
        data, self._data = bytes(self._data), bytearray()
        return data


def _units(data: bytes) -> Iterator[bytes]:
    """NAL units, without start codes. A three-byte start code cannot be within one."""
    for part in data.split(b"\x00\x00\x01")[1:]:
        unit = part.rstrip(b"\x00")  # the zero of a longer start code, or trailing ones
        if unit:
            yield unit


class FragmentFile:
    """A new file; whatever happens, what it holds ends with a whole fragment.

    Errors: ``FileExistsError`` and every other ``OSError`` of opening it.
    """

    def __init__(self, path: Path) -> None:
        self.size = 0
        self._path = path
        self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)

    def append(self, fragment: bytes) -> None:
        """Write it now, so that the end of this process does not take it along. May wait for the disk.

        Errors: ``OSError``; nothing of the fragment is left then.
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
        """Keep what was written; if that is nothing, keep no file."""
        os.close(self._fd)
        if not self.size:
            self._path.unlink(missing_ok=True)


class RecordingError(RealtimeEngineError):
    """Base of what can be wrong with a recording."""


class RecordingRuns(RecordingError):
    """There is a recording already, or the file is still being written."""


class StorageFull(RecordingError):
    """What may be stored is stored."""
