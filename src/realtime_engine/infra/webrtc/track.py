"""The video that one viewer is sent: packets of a shared stream, as soon as they are there."""

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
from .sender import Sending
from .shared_video import SharedVideo

logger = logging.getLogger(__name__)


class SentFrame(NamedTuple):
    """A frame that is on the wire.

    Attributes:
        rtp: the RTP timestamp that it was sent with, in 90 kHz.
        encoded: the frame. sent_ns: when its last packet was handed to the network.
    """

    rtp: int
    encoded: EncodedFrame
    sent_ns: int


class ViewerTrack(MediaStreamTrack):
    """A track over a session's video.

    The sender asks for the first packet once the connection is up, so that is when this viewer joins.

    Args:
        video, codec: what to watch, and as what.
        on_sent: told of each frame after it was sent.
        on_ended: told once when no more packets will come, with the error if there was one.
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
        self._sending: Sending | None = None
        self._viewer: VideoViewer | None = None
        self._in_flight: EncodedFrame | None = None

    def use(self, sender: RTCRtpSender) -> None:
        """Listen to the reports for ``sender``, which sends this track. Needed before it is asked for a packet."""
        self._sending = Sending(sender, self._clock)

    async def recv(self) -> av.Packet[av.VideoStream]:
        """The next packet; ``MediaStreamError`` when there are no more, whatever the cause."""
        try:
            if self.readyState != "live" or self._sending is None:
                raise StreamEnded()
            self._tell_sent(self._sending)
            viewer = self._viewer or self._join(self._sending)
            encoded = await viewer.next()
        except StreamEnded as ended:
            self._on_ended(ended.error)
            raise MediaStreamError from ended
        except Exception as error:
            # aiortc would stop sending and leave the connection up, with a frozen picture
            logger.exception("a viewer's track failed")
            self._on_ended(error)
            raise MediaStreamError from error
        self._in_flight = encoded
        self._sending.send(encoded, viewer)
        return encoded.packet

    def stop(self) -> None:
        super().stop()
        if self._viewer is not None:
            self._viewer.close()

    def _join(self, sending: Sending) -> VideoViewer:
        self._viewer = self._video.add_viewer(self._codec, blind=sending.blind)
        sending.begin(self._viewer)
        return self._viewer

    def _tell_sent(self, sending: Sending) -> None:
        """The sender comes for the next packet when the last one is on the wire, on a busy event loop much later."""
        sent, self._in_flight = self._in_flight, None
        if sent is None:
            return
        self.frames_sent += 1
        rtp = sending.timestamp
        if rtp is not None:
            self._on_sent(SentFrame(rtp, sent, sending.handed_ns or self._clock.now_ns()))
