"""One WebRTC connection of the mock server: synthetic track, data channel and frame identities."""

from __future__ import annotations

import json
from collections.abc import Callable

import numpy as np
from aiortc import (
    RTCConfiguration,
    RTCDataChannel,
    RTCPeerConnection,
    RTCRtpSender,
    RTCSessionDescription,
    VideoStreamTrack,
)
from av import VideoFrame
from numpy.typing import NDArray

Receive = Callable[[str, Callable[[str], None]], None]


class SyntheticTrack(VideoStreamTrack):
    """30 frames per second; announces the RTP timestamp of each frame from the second one on."""

    def __init__(self, paint: Callable[[int], NDArray[np.uint8]], announce: Callable[[int, int], None]) -> None:
        super().__init__()
        self.sender: RTCRtpSender | None = None
        self._frames = [paint(index) for index in range(21)]
        self._announce = announce
        self._index = 0
        self._last_pts: int | None = None
        self._origin: int | None = None

    async def recv(self) -> VideoFrame:
        pts, time_base = await self.next_timestamp()
        if self._origin is None and self._last_pts is not None:
            self._origin = self.sender._RTCRtpSender__rtp_timestamp - self._last_pts  # type: ignore[union-attr]
        self._last_pts = pts
        frame = VideoFrame.from_ndarray(self._frames[self._index % len(self._frames)], format="rgb24")
        frame.pts, frame.time_base = pts, time_base
        if self._origin is not None:
            self._announce(self._index, (self._origin + pts) % 2**32)
        self._index += 1
        return frame


class MockPeer:
    """Answers one WHEP offer.

    ``receive(text, reply)`` is called for each control message; ``action_seq()`` returns the number of the newest one.
    """

    def __init__(
        self, receive: Receive, action_seq: Callable[[], int | None], paint: Callable[[int], NDArray[np.uint8]]
    ) -> None:
        self._receive = receive
        self._action_seq = action_seq
        self._channel: RTCDataChannel | None = None
        self._track = SyntheticTrack(paint, self._announce)
        self._pc = RTCPeerConnection(RTCConfiguration(iceServers=[]))
        self._pc.on("datachannel", self._open)

    async def answer(self, offer: str) -> str:
        # An mDNS name takes a second to fail. The page is found by its own connectivity checks.
        sdp = "".join(line for line in offer.splitlines(True) if ".local" not in line)
        self._track.sender = self._pc.addTrack(self._track)
        await self._pc.setRemoteDescription(RTCSessionDescription(sdp, "offer"))
        await self._pc.setLocalDescription(await self._pc.createAnswer())
        return self._pc.localDescription.sdp

    async def close(self) -> None:
        self._track.stop()
        await self._pc.close()

    def _open(self, channel: RTCDataChannel) -> None:
        self._channel = channel
        channel.on("message", lambda text: self._receive(text, channel.send))

    def _announce(self, index: int, rtp: int) -> None:
        if self._channel is None or self._channel.readyState != "open":
            return
        identity = {"epoch": 1, "seq": index, "index": 0, "action_seq": self._action_seq(), "rtp": rtp}
        self._channel.send(json.dumps({"v": 1, "type": "frame", **identity}))
