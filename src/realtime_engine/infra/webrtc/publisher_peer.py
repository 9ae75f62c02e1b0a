"""One WebRTC publisher of one session, from its SDP offer (WHIP, RFC 9725) to the end of its connection."""

from __future__ import annotations

import asyncio
import enum
import logging
from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor
from typing import NamedTuple

import av
import numpy as np
from aiortc import MediaStreamTrack, RTCRtpReceiver
from aiortc.mediastreams import MediaStreamError
from numpy.typing import NDArray

from ...core.clock import MONOTONIC, NS_PER_S
from ...core.loglimit import LogLimiter
from ..color import to_rgb
from ..encoding.base import Codec
from ..video_input import VideoInput
from .aiortc_internals import (
    emit_at_marker,
    limit_sources,
    receive_extension,
    replace_decoder_queue,
    request_keyframe,
)
from .codecs import codec_capabilities
from .jitter_buffer import DecoderQueue
from .peer import CloseReasons, Liveness, PeerOptions, RemotePeer, packets_received
from .sdp import (
    COLOR_SPACE_URI,
    ColorSpace,
    PublishOffer,
    apply_color_space,
    parse_color_space,
    parse_publish_offer,
)

_log = LogLimiter(logging.getLogger(__name__), MONOTONIC)

_MAX_WAITING_PIXELS = 8192 * 4096
_MAX_UNDECODED = 16
_MAX_SOURCES = 32  # video, retransmissions and audio, with new SSRCs after each restart of an encoder
_KEYFRAME_WAIT_NS = NS_PER_S  # packets but no picture for this long: request a keyframe


class ReceivedPicture(NamedTuple):
    """A received frame.

    Attributes:
        pixels: (height, width, 3) uint8 RGB.
        media_ns: nanoseconds since the sender's first frame, by the sender's clock.
        arrived_ns: when it was decoded, in monotonic nanoseconds.
    """

    pixels: NDArray[np.uint8]
    media_ns: int
    arrived_ns: int


class PublisherCloseReason(str, enum.Enum):
    """Why a publisher's connection ended."""

    SERVER = "closed by the server"
    PUBLISHER = "closed by the publisher"
    VANISHED = "the publisher vanished"
    NEVER_CONNECTED = "the publisher never connected"


_REASONS = CloseReasons(PublisherCloseReason.SERVER, PublisherCloseReason.PUBLISHER, PublisherCloseReason.VANISHED)


class _Decoded(NamedTuple):
    image: av.VideoFrame
    media_ns: int
    arrived_ns: int


class FrameConverter:
    """Converts decoded frames to RGB off the event loop, one at a time, in order.

    Args:
        waiting: frames that may wait; when there are more, or more than 32 million pixels, the oldest is dropped.
        max_side: longer side of a picture in pixels at most.
        pool: threads to convert on.
        on_picture: called on the event loop with each picture.
        on_drop: called on the event loop for each frame that was dropped.

    Attributes:
        received: frames put in so far.
    """

    def __init__(
        self,
        waiting: int,
        max_side: int,
        pool: Executor | None,
        on_picture: Callable[[ReceivedPicture], None],
        on_drop: Callable[[], None],
    ) -> None:
        self.received = 0
        self._waiting: deque[_Decoded] = deque()
        self._max_waiting = waiting
        self._max_side = max_side
        self._pool = pool
        self._on_picture = on_picture
        self._on_drop = on_drop
        self._arrived = asyncio.Event()
        self._pixels = 0  # of the waiting frames

    def put(self, image: av.VideoFrame, arrived_ns: int) -> None:
        """Add a decoded frame; does not block."""
        self._pixels += image.width * image.height
        while self._waiting and (len(self._waiting) >= self._max_waiting or self._pixels > _MAX_WAITING_PIXELS):
            self._pop()
            self._on_drop()
        self.received += 1
        self._waiting.append(_Decoded(image, _media_ns(image), arrived_ns))
        self._arrived.set()

    async def run(self) -> None:
        """Convert frames until cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            while not self._waiting:
                self._arrived.clear()
                await self._arrived.wait()
            image, media_ns, arrived_ns = self._pop()
            try:
                pixels = await loop.run_in_executor(self._pool, to_rgb, image, self._max_side)
            except Exception as error:  # untrusted video can have any format
                self._on_drop()
                _log.error("a received frame could not be converted", error)
            else:
                self._on_picture(ReceivedPicture(pixels, media_ns, arrived_ns))

    def _pop(self) -> _Decoded:
        decoded = self._waiting.popleft()
        self._pixels -= decoded.image.width * decoded.image.height
        return decoded


class PublisherPeer(RemotePeer[PublisherCloseReason]):
    """A client that sends one video. Made by :meth:`from_offer`; belongs to the event loop on which it was made.

    Attributes:
        answer: the SDP answer for the publisher.
    """

    def __init__(
        self,
        offer: PublishOffer,
        declared: VideoInput,
        *,
        on_picture: Callable[[ReceivedPicture], None],
        on_drop: Callable[[], None],
        on_closed: Callable[[PublisherCloseReason], None] | None,
        pool: Executor | None,
        options: PeerOptions,
    ) -> None:
        super().__init__(
            "publisher", mid=offer.mid, ufrag=offer.ufrag, on_closed=on_closed, reasons=_REASONS, options=options
        )
        self._offer = offer
        self._converter = FrameConverter(declared.max_frames, declared.max_side, pool, on_picture, on_drop)
        transceiver = self._connection.addTransceiver("video", direction="recvonly")
        # H264 states its color space in the stream; for VP8 it needs a header extension that few senders support
        transceiver.setCodecPreferences(codec_capabilities((Codec.H264, Codec.VP8)))
        self._transceiver = transceiver
        self._receiver: RTCRtpReceiver = transceiver.receiver
        self._color_space: ColorSpace | None = None
        replace_decoder_queue(self._receiver, DecoderQueue(_MAX_UNDECODED, on_drop))
        emit_at_marker(self._receiver)
        self._connection.on("track", self._on_track)

    @classmethod
    async def from_offer(
        cls,
        offer_sdp: str,
        declared: VideoInput,
        *,
        on_picture: Callable[[ReceivedPicture], None],
        on_drop: Callable[[], None] = lambda: None,
        on_closed: Callable[[PublisherCloseReason], None] | None = None,
        pool: Executor | None = None,
        options: PeerOptions | None = None,
    ) -> PublisherPeer:
        """Answer a publisher's offer.

        Args:
            offer_sdp: the offer, with one video section to send; VP8, or H264 of any profile.
            declared: the maximum size of pictures, and how many may wait to be converted.
            on_picture: called with each picture, in order.
            on_drop: called for each frame that was received and is not shown.
            on_closed: called once, when the connection has ended.
            pool: threads to convert pictures on; by default the event loop's own.
            options: settings of the connection.

        Raises:
            BadOfferError: the offer cannot be answered.
            NoCandidatesError: this machine has no address to offer.
        """
        offer = parse_publish_offer(offer_sdp)
        peer = cls(
            offer,
            declared,
            on_picture=on_picture,
            on_drop=on_drop,
            on_closed=on_closed,
            pool=pool,
            options=options or PeerOptions(),
        )
        await peer._negotiate(offer.sdp)
        return peer

    def _before_answer(self) -> None:
        for transceiver in self._connection.getTransceivers():
            if transceiver.kind == "audio":
                transceiver.direction = "inactive"
        limit_sources(self._receiver, _MAX_SOURCES)  # now that all sections share one transport
        extension = self._offer.color_extension
        if extension is not None:
            receive_extension(self._transceiver, extension, COLOR_SPACE_URI, self._on_color_space)

    def _after_answer(self) -> None:
        self.answer = self._offer.answer(self.answer)
        self._start_task(self._converter.run(), "convert received frames")
        self._start_task(self._watch(), "watch a publisher")

    def _on_track(self, track: MediaStreamTrack) -> None:
        if track.kind == "video":
            self._start_task(self._read(track), "read received frames")

    def _on_color_space(self, value: bytes) -> None:
        self._color_space = parse_color_space(value)

    async def _read(self, track: MediaStreamTrack) -> None:
        while True:
            try:
                image = await track.recv()
            except MediaStreamError:  # the publisher said goodbye (RTCP BYE), or the connection is lost
                self._start_close(PublisherCloseReason.PUBLISHER)
                return
            assert isinstance(image, av.VideoFrame)
            apply_color_space(image, self._color_space)
            self._converter.put(image, self._clock.now_ns())

    async def _watch(self) -> None:
        """Disconnect a publisher that has vanished, and request a keyframe of one whose video cannot be decoded."""
        timeouts = self._options.timeouts
        liveness = Liveness(timeouts, self._clock.now_ns())
        polls = decoded = packets = 0
        seen_ns = self._clock.now_ns()
        while True:
            await asyncio.sleep(timeouts.poll_s)
            polls += 1
            now_ns, connected = self._clock.now_ns(), self.is_connected
            received = await packets_received(self._receiver)
            # a publisher must send at any time, as if each poll were a frame to respond to
            if liveness.has_vanished(now_ns, connected=connected, sent=polls, received=received):
                self._start_close(PublisherCloseReason.VANISHED if connected else PublisherCloseReason.NEVER_CONNECTED)
                return
            if self._converter.received > decoded or received == packets:
                seen_ns = now_ns
            elif now_ns - seen_ns >= _KEYFRAME_WAIT_NS:
                seen_ns = now_ns
                await request_keyframe(self._receiver)
            decoded, packets = self._converter.received, received


def _media_ns(image: av.VideoFrame) -> int:
    if image.pts is None or image.time_base is None:
        return 0
    return round(image.pts * image.time_base * NS_PER_S)
