"""A WebRTC viewer without a browser: offers, receives frames, and exchanges messages over the data channel."""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import av
import numpy as np
from aiortc import MediaStreamTrack, RTCRtpReceiver, RTCSessionDescription
from aiortc.mediastreams import MediaStreamError
from numpy.typing import NDArray

from ...core.clock import MONOTONIC
from ..controls import FrameInfo, parse_frame_message
from ..encoding.base import Codec
from .aiortc_internals import received_timestamp, replace_jitter_buffer, replace_nack_generator
from .codecs import DEFAULT_CODECS, codec_capabilities
from .data_channel import LABEL
from .errors import BadAnswerError, PeerClosedError
from .ice import IceConfig, keep_usable_candidates
from .jitter_buffer import EncodedPicture, JitterBuffer, NackGenerator, ReceivedPacket, starts_keyframe

_MAX_MESSAGES = 1024
_MAX_UNMATCHED = 256


@dataclass(frozen=True, eq=False)
class ReceivedFrame:
    """A decoded picture.

    Attributes:
        image: as decoded, YUV 4:2:0.
        rtp: its RTP timestamp; ``None`` if unknown.
        info: its identity; ``None`` if the server has not sent that.
        received_ns: when it was decoded, in monotonic nanoseconds.
    """

    image: av.VideoFrame
    rtp: int | None
    info: FrameInfo | None
    received_ns: int

    def rgb(self) -> NDArray[np.uint8]:
        """(height, width, 3) uint8 RGB."""
        return self.image.to_ndarray(format="rgb24")  # type: ignore[return-value]

    def luma(self) -> NDArray[np.uint8]:
        """(height, width) uint8, BT.601 limited range."""
        planes = self.image.to_ndarray(format="yuv420p")
        return planes[: self.image.height]  # type: ignore[return-value]


class WebRtcReceiver:
    """One viewer of a session.

    ::

        receiver = WebRtcReceiver()
        answer = ...  # POST await receiver.offer() to the session's WHEP resource
        await receiver.set_answer(answer)
        frame = await receiver.next_frame()

    Args:
        codecs: what to offer, by preference.
        ice: addresses and servers; by default only this machine's own addresses.
        unread: decoded frames that are kept until they are read; when there are more, the oldest is dropped.
    """

    def __init__(
        self, *, codecs: Sequence[Codec] = DEFAULT_CODECS, ice: IceConfig | None = None, unread: int = 8
    ) -> None:
        self._change = asyncio.Event()
        self._ice = ice or IceConfig()
        self._connection = self._ice.create_connection()
        transceiver = self._connection.addTransceiver("video", direction="recvonly")
        transceiver.setCodecPreferences(codec_capabilities(codecs))
        self._receiver: RTCRtpReceiver = transceiver.receiver
        self._jitter_buffer = JitterBuffer()
        replace_jitter_buffer(self._receiver, self._add_packet)
        replace_nack_generator(self._receiver, NackGenerator(MONOTONIC, self._jitter_buffer.needs).on_packet)
        self._channel = self._connection.createDataChannel(LABEL)
        self._channel.on("message", self._on_message)
        self._channel.on("open", self._change.set)
        self._connection.on("track", self._on_track)
        self._connection.on("connectionstatechange", self._change.set)
        self._frames: deque[ReceivedFrame] = deque(maxlen=unread)
        self._messages: deque[str] = deque(maxlen=_MAX_MESSAGES)
        self._infos: OrderedDict[int, FrameInfo] = OrderedDict()
        self._reading: asyncio.Task[None] | None = None

    async def offer(self) -> str:
        """The SDP offer, with this side's candidates."""
        self._ice.restrict(self._connection)
        await self._connection.setLocalDescription(await self._connection.createOffer())
        return self._ice.local_sdp(self._connection)

    async def set_answer(self, answer_sdp: str) -> None:
        """Connect with the server's answer.

        Raises:
            BadAnswerError: it cannot be used.
        """
        try:
            answer = RTCSessionDescription(keep_usable_candidates(answer_sdp), "answer")
            await self._connection.setRemoteDescription(answer)
        except Exception as error:  # aiortc's errors have no common base
            raise BadAnswerError(f"the SDP answer cannot be used: {type(error).__name__}: {error}") from error

    async def channel_open(self) -> None:
        """Return when the data channel is open.

        Raises:
            PeerClosedError: the connection has ended.
        """
        await self._until(lambda: self._channel.readyState == "open")

    async def next_frame(self) -> ReceivedFrame:
        """The oldest unread frame, waiting for one.

        Raises:
            PeerClosedError: the connection has ended.
        """
        await self._until(lambda: bool(self._frames))
        return self._frames.popleft()

    async def next_message(self) -> str:
        """The oldest unread text of the server, frame messages excepted, waiting for one.

        Raises:
            PeerClosedError: the connection has ended.
        """
        await self._until(lambda: bool(self._messages))
        return self._messages.popleft()

    async def ended(self) -> None:
        """Return when the connection has ended, on either side."""
        try:
            await self._until(lambda: False)
        except PeerClosedError:
            return

    def send(self, text: str) -> None:
        """Send ``text`` on the data channel.

        Raises:
            PeerClosedError: it is not open.
        """
        if self._channel.readyState != "open":
            raise PeerClosedError(f"the data channel is {self._channel.readyState}, not open")
        self._channel.send(text)

    async def close(self) -> None:
        """End the connection. Idempotent."""
        if self._reading is not None:
            self._reading.cancel()
        await self._connection.close()
        self._change.set()

    @property
    def _is_over(self) -> bool:
        return self._connection.connectionState in ("closed", "failed")

    async def _until(self, condition: Callable[[], bool]) -> None:
        while not condition():
            if self._is_over:
                raise PeerClosedError(f"the connection is {self._connection.connectionState}")
            self._change.clear()
            await self._change.wait()

    def _on_message(self, message: str | bytes) -> None:
        text = message if isinstance(message, str) else message.decode(errors="replace")
        info = parse_frame_message(text)
        if info is None:
            self._messages.append(text)
            self._change.set()
            return
        self._infos[info.rtp] = info
        if len(self._infos) > _MAX_UNMATCHED:
            self._infos.popitem(last=False)

    def _add_packet(self, codec: str, packet: Any) -> tuple[list[EncodedPicture], bool]:
        is_first = starts_keyframe(Codec(codec), packet.payload, packet._data)
        return self._jitter_buffer.add(
            ReceivedPacket(packet.sequence_number, packet.timestamp, packet._data, bool(packet.marker), is_first)
        )

    def _on_track(self, track: MediaStreamTrack) -> None:
        self._reading = asyncio.create_task(self._read(track), name="read received frames")

    async def _read(self, track: MediaStreamTrack) -> None:
        while True:
            try:
                image = await track.recv()
            except MediaStreamError:
                return
            assert isinstance(image, av.VideoFrame) and image.pts is not None
            rtp = received_timestamp(self._receiver, image.pts)
            info = None if rtp is None else self._infos.pop(rtp, None)
            self._frames.append(ReceivedFrame(image, rtp, info, time.monotonic_ns()))
            self._change.set()
