"""A client that publishes video, as OBS or a page does. The test paints its pictures."""

from __future__ import annotations

import asyncio
import fractions
import time
from collections.abc import Callable
from typing import Any

import av
import numpy as np
from aiortc import MediaStreamTrack, RTCConfiguration, RTCPeerConnection, RTCRtpSender, RTCSessionDescription
from numpy.typing import NDArray

Paint = Callable[[int], NDArray[np.uint8]]
_CLOCK_HZ = 90_000


class PaintedTrack(MediaStreamTrack):
    """Pictures (height, width, 3) uint8 RGB at a steady rate."""

    kind = "video"

    def __init__(self, paint: Paint, fps: float = 30.0) -> None:
        super().__init__()
        self.sent = 0
        self._paint = paint
        self._period_s = 1 / fps
        self._started_s: float | None = None

    async def recv(self) -> av.VideoFrame:
        started_s = self._started_s = self._started_s if self._started_s is not None else time.monotonic()
        await asyncio.sleep(started_s + self.sent * self._period_s - time.monotonic())
        frame = av.VideoFrame.from_ndarray(self._paint(self.sent), format="rgb24")
        frame.pts = round(self.sent * self._period_s * _CLOCK_HZ)
        frame.time_base = fractions.Fraction(1, _CLOCK_HZ)
        self.sent += 1
        return frame


class Publisher:
    """Publishes one video track, and an audio track if ``audio`` is set. Async context manager."""

    def __init__(self, paint: Paint, *, codec: str = "VP8", fps: float = 30.0, audio: bool = False) -> None:
        self.track = PaintedTrack(paint, fps)
        self.connection = RTCPeerConnection(RTCConfiguration(iceServers=[]))
        if audio:
            self.connection.addTransceiver("audio", direction="sendonly")
        transceiver = self.connection.addTransceiver(self.track, direction="sendonly")
        known: list[Any] = RTCRtpSender.getCapabilities("video").codecs
        transceiver.setCodecPreferences([each for each in known if each.mimeType.lower() == f"video/{codec}".lower()])
        self.sender = transceiver.sender

    async def __aenter__(self) -> Publisher:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.connection.close()

    async def offer(self) -> str:
        """The SDP offer."""
        await self.connection.setLocalDescription(await self.connection.createOffer())
        sdp: str = self.connection.localDescription.sdp
        return sdp

    async def set_answer(self, answer: str) -> None:
        await self.connection.setRemoteDescription(RTCSessionDescription(answer, "answer"))

    async def vanish(self) -> None:
        """Stop sending and replying without closing the connection."""
        ice = self.sender.transport.transport._connection
        ice.send_stun = lambda *_: None

        async def lose(*_: object) -> None:
            return None

        ice.send = ice.sendto = lose
        self.sender.transport.transport._send = lose
