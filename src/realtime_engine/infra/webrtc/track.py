"""The media track of one viewer: the frames of its send queue."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import NamedTuple

import av
from aiortc import MediaStreamTrack, RTCRtpSender
from aiortc.mediastreams import MediaStreamError

from ...core.clock import MONOTONIC, Clock
from ..encoding.base import Codec
from .send_queue import EncodedFrame, StreamEnded, VideoViewer
from .sender import PacedSender
from .shared_video import SharedVideo

logger = logging.getLogger(__name__)


class SentFrame(NamedTuple):
    """A frame that was sent.

    Attributes:
        rtp: its RTP timestamp, in 90 kHz.
        encoded: the frame.
        sent_ns: when its last packet was passed to the network.
    """

    rtp: int
    encoded: EncodedFrame
    sent_ns: int


class ViewerTrack(MediaStreamTrack):
    """A track over a session's video.

    aiortc's sender asks for the first packet once it is connected; the viewer is added then.

    Args:
        video: the session's video.
        codec: the codec to send.
        on_sent: called with each frame after it was sent.
        on_ended: called once when the video has ended, with the error if there was one.
        clock: stamps sent frames, and paces packets.

    Attributes:
        frames_sent: frames sent so far.
    """

    kind = "video"

    def __init__(
        self,
        video: SharedVideo,
        codec: Codec,
        *,
        on_sent: Callable[[SentFrame], None],
        on_ended: Callable[[BaseException | None], None],
        clock: Clock = MONOTONIC,
    ) -> None:
        super().__init__()
        self.frames_sent = 0
        self._video = video
        self._codec = codec
        self._on_sent = on_sent
        self._on_ended = on_ended
        self._clock = clock
        self._sender: PacedSender | None = None
        self._viewer: VideoViewer | None = None
        self._in_flight: EncodedFrame | None = None

    def attach(self, sender: RTCRtpSender) -> None:
        """Control ``sender``, which sends this track. Call it before the connection is made."""
        self._sender = PacedSender(sender, self._clock)

    async def recv(self) -> av.Packet[av.VideoStream]:
        """The next packet.

        Raises:
            MediaStreamError: there are no more, for whatever reason.
        """
        try:
            if self.readyState != "live" or self._sender is None:
                raise StreamEnded()
            self._report_sent(self._sender)
            viewer = self._viewer or self._add_viewer(self._sender)
            encoded = await viewer.next()
        except StreamEnded as ended:
            self._on_ended(ended.error)
            raise MediaStreamError from ended
        except Exception as error:
            # aiortc would stop sending and keep the connection open, with a frozen picture
            logger.exception("a viewer's track failed")
            self._on_ended(error)
            raise MediaStreamError from error
        self._in_flight = encoded
        self._sender.prepare(encoded, viewer)
        return encoded.packet

    def stop(self) -> None:
        """End the track and remove its viewer."""
        super().stop()
        if self._viewer is not None:
            self._viewer.close()

    def _add_viewer(self, sender: PacedSender) -> VideoViewer:
        self._viewer = self._video.add_viewer(self._codec, blind=sender.blind)
        sender.start(self._viewer)
        return self._viewer

    def _report_sent(self, sender: PacedSender) -> None:
        """The sender asks for the next packet when the last one has been sent, on a busy event loop much later."""
        sent, self._in_flight = self._in_flight, None
        if sent is None:
            return
        self.frames_sent += 1
        rtp = sender.timestamp
        if rtp is not None:
            self._on_sent(SentFrame(rtp, sent, sender.passed_ns or self._clock.now_ns()))
