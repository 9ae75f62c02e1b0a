"""Viewers in a process of their own: aiortc peers that take frames apart from decoding them.

Decoding would take the CPU away from the sender, so the first viewer's frames are kept and decoded at the end.
"""

from __future__ import annotations

import asyncio
import threading
import time
from multiprocessing.connection import Connection
from typing import Any

import aiortc.rtcrtpreceiver
import av
import numpy as np
from aiortc import RTCConfiguration, RTCPeerConnection, RTCRtpReceiver, RTCSessionDescription

from webrtc_rig.scene import number_of, pictures
from webrtc_rig.sender import Load

_CONNECT_S = 20
_DECODERS = {"H264": "h264", "VP8": "vp8"}


class Taken:
    """Stands for a decoder and counts what it is given."""

    made: list[Taken] = []
    _lock = threading.Lock()

    def __init__(self, codec: Any) -> None:
        with self._lock:
            self._keeps = not self.made
            self.made.append(self)
        self.frames = 0
        self.bytes = 0
        self.kept: list[tuple[float, bytes]] = []

    def decode(self, frame: Any) -> list[av.VideoFrame]:
        self.frames += 1
        self.bytes += len(frame.data)
        if self._keeps:
            self.kept.append((time.monotonic(), bytes(frame.data)))
        return []


async def _receive(load: Load, pipe: Connection) -> None:
    connections = [_connection(load.codec) for _ in range(load.sessions * load.viewers)]
    offers = []
    for connection in connections:
        await connection.setLocalDescription(await connection.createOffer())
        offers.append(connection.localDescription.sdp)
    pipe.send(offers)
    for connection, answer in zip(connections, await asyncio.to_thread(pipe.recv), strict=True):
        await connection.setRemoteDescription(RTCSessionDescription(answer, "answer"))
    deadline = time.monotonic() + _CONNECT_S
    while len(Taken.made) < len(connections) and time.monotonic() < deadline:  # noqa: ASYNC110 - threads make them
        await asyncio.sleep(0.05)
    pipe.send(len(Taken.made))
    begin_s = time.monotonic()
    while await asyncio.to_thread(pipe.recv):
        begin_s = time.monotonic()
        pipe.send([(taken.frames, taken.bytes) for taken in Taken.made])
    pipe.send(_psnr_since(begin_s, load))
    for connection in connections:
        await connection.close()


def _connection(codec: str) -> RTCPeerConnection:
    connection = RTCPeerConnection(RTCConfiguration(iceServers=[]))
    transceiver = connection.addTransceiver("video", direction="recvonly")
    known = RTCRtpReceiver.getCapabilities("video").codecs
    names = (f"video/{codec}".lower(), "video/rtx")
    transceiver.setCodecPreferences([one for one in known if one.mimeType.lower() in names])
    return connection


def _psnr_since(end_s: float, load: Load) -> float:
    """Luma PSNR in dB, mean over the last two seconds before ``end_s``; 0 if nothing could be decoded."""
    shown = [_luma(pixels) for pixels in pictures(load.width, load.height)]
    decoder = av.CodecContext.create(_DECODERS[load.codec], "r")
    found = []
    for at_s, data in Taken.made[0].kept if Taken.made else []:
        try:
            frames = decoder.decode(av.Packet(data))
        except av.FFmpegError:
            continue
        if end_s - 2 <= at_s <= end_s:
            found += [_psnr(frame.to_ndarray(format="yuv420p")[: load.height], shown) for frame in frames]
    return float(np.mean(found)) if found else 0.0


def _luma(pixels: np.ndarray) -> np.ndarray:
    return 16 + pixels @ (np.array([0.299, 0.587, 0.114]) * 219 / 255)


def _psnr(luma: np.ndarray, shown: list[np.ndarray]) -> float:
    number = number_of(luma)
    if number >= len(shown):
        return 0.0
    return float(10 * np.log10(255**2 / np.mean((luma - shown[number]) ** 2)))


def main(load: Load, pipe: Connection) -> None:
    """Send offers, take answers, say how many viewers see something; then answer each request with their counts, and
    the end with the PSNR of the first.
    """
    aiortc.rtcrtpreceiver.get_decoder = Taken
    asyncio.run(_receive(load, pipe))
