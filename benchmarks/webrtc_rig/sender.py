"""Sessions at 30 frames per second, sent by our media path or by plain aiortc, in a process of its own."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Protocol

import av
from aiortc import RTCConfiguration, RTCPeerConnection, RTCSessionDescription, VideoStreamTrack

from realtime_engine.infra.encoding import Codec
from realtime_engine.infra.frame import Frame, FrameId
from realtime_engine.infra.publisher import FramePublisher
from realtime_engine.infra.telemetry.server_stats import LoopMonitor
from realtime_engine.infra.webrtc import SharedVideo, ViewerPeer
from webrtc_rig.scene import pictures

FPS = 30


@dataclass(frozen=True)
class Load:
    """What is sent: ``viewers`` of each session."""

    codec: str
    width: int
    height: int
    sessions: int
    viewers: int


class Way(Protocol):
    """A way to send it."""

    async def accept(self, session: int, offer: str) -> str:
        """An answer to the offer of a viewer of this session."""

    async def close(self) -> None: ...


class Ours:
    """Frames go into publishers, as the server's pump puts them there."""

    def __init__(self, load: Load, bitrate: int | None = None) -> None:
        self._codec = Codec(load.codec)
        self._publishers = [FramePublisher() for _ in range(load.sessions)]
        self._videos = [SharedVideo(publisher, fps=FPS, bitrate=bitrate) for publisher in self._publishers]
        self._peers: list[ViewerPeer] = []
        self._pictures = pictures(load.width, load.height)
        self._playing = [asyncio.create_task(self._play(session)) for session in range(load.sessions)]

    async def accept(self, session: int, offer: str) -> str:
        peer = await ViewerPeer.from_offer(
            offer, source=self._videos[session], on_controls=lambda text: [], codecs=(self._codec,)
        )
        self._peers.append(peer)
        return peer.answer

    async def close(self) -> None:
        for task in self._playing:
            task.cancel()
        for peer in self._peers:
            await peer.close()
        for video in self._videos:
            await video.close()

    async def _play(self, session: int) -> None:
        begin = time.monotonic() + session / FPS / len(self._publishers)  # sessions are not in step with each other
        for number in itertools.count():
            await asyncio.sleep(max(begin + number / FPS - time.monotonic(), 0))
            pixels = self._pictures[number % len(self._pictures)]
            self._publishers[session].publish(Frame(pixels, FrameId(str(session), 1, number, 0)))


class Plain:
    """aiortc as it comes: a track of ``VideoFrame`` for each viewer, and its encoders.

    No ``MediaRelay``: PyAV's conversions of one frame on several threads end in a segmentation fault now and then.
    """

    def __init__(self, load: Load) -> None:
        self._pictures = pictures(load.width, load.height)
        self._connections: list[RTCPeerConnection] = []

    async def accept(self, session: int, offer: str) -> str:
        connection = RTCPeerConnection(RTCConfiguration(iceServers=[]))
        self._connections.append(connection)
        connection.addTrack(_PlainTrack(self._pictures))
        await connection.setRemoteDescription(RTCSessionDescription(offer, "offer"))
        await connection.setLocalDescription(await connection.createAnswer())
        return connection.localDescription.sdp

    async def close(self) -> None:
        for connection in self._connections:
            await connection.close()


class _PlainTrack(VideoStreamTrack):
    def __init__(self, shown: list) -> None:
        super().__init__()
        self._shown = itertools.cycle(shown)

    async def recv(self) -> av.VideoFrame:
        pts, time_base = await self.next_timestamp()
        frame = av.VideoFrame.from_ndarray(next(self._shown), format="rgb24")
        frame.pts, frame.time_base = pts, time_base
        return frame


PAR = "at par"
_PLAIN_BITRATES = {"H264": 1_000_000, "VP8": 500_000}  # where aiortc's encoders begin
WAYS: dict[str, Callable[[Load], Way]] = {
    "ours": Ours,
    PAR: lambda load: Ours(load, _PLAIN_BITRATES[load.codec]),
    "aiortc": Plain,
}


async def _send(way: Way, load: Load, pipe: Connection) -> None:
    offers = await asyncio.to_thread(pipe.recv)
    pipe.send([await way.accept(index % load.sessions, offer) for index, offer in enumerate(offers)])
    lag = LoopMonitor()
    lag.start()
    while await asyncio.to_thread(pipe.recv):
        late_ms = lag.snapshot().quantile_ns(0.99) / 1e6
        lag.stop()
        lag = LoopMonitor()
        lag.start()
        pipe.send((time.monotonic(), time.process_time(), late_ms))
    lag.stop()
    await way.close()


def main(name: str, load: Load, pipe: Connection) -> None:
    """Answer the offers that come, then each request with the time, the CPU seconds spent, and by how many milliseconds
    the event loop was late at most in 99 of 100 looks since the last one; until a falsehood."""

    async def run() -> None:
        await _send(WAYS[name](load), load, pipe)

    asyncio.run(run())
