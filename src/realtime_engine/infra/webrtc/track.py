"""The video that one viewer is sent: packets of a shared stream, as soon as they are there."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import NamedTuple

import av
from aiortc import MediaStreamTrack, RTCRtpSender
from aiortc.mediastreams import MediaStreamError

from ...core.clock import MONOTONIC
from .codecs import Codec
from .internals import hear_losses, sent_timestamp
from .shared import SharedVideo
from .viewer import EncodedFrame, StreamEnded, VideoViewer

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
    ) -> None:
        super().__init__()
        self.frames_sent = 0
        self._video = video
        self._codec = codec
        self._on_sent = on_sent
        self._on_ended = on_ended
        self._sender: RTCRtpSender | None = None
        self._blind = True
        self._viewer: VideoViewer | None = None
        self._in_flight: EncodedFrame | None = None

    def use(self, sender: RTCRtpSender) -> None:
        """Listen to the loss reports of ``sender``, which sends this track."""
        self._sender = sender
        self._blind = not hear_losses(sender, self._report_loss)

    async def recv(self) -> av.Packet[av.VideoStream]:
        """The next packet; ``MediaStreamError`` when there are no more, whatever the cause."""
        try:
            if self.readyState != "live":
                raise StreamEnded()
            self._tell_sent()
            if self._viewer is None:
                self._viewer = self._video.join(self._codec, blind=self._blind)
            encoded = await self._viewer.next()
        except StreamEnded as ended:
            self._on_ended(ended.error)
            raise MediaStreamError from ended
        except Exception as error:
            # aiortc would stop sending and leave the connection up, with a frozen picture
            logger.exception("a viewer's track failed")
            self._on_ended(error)
            raise MediaStreamError from error
        self._in_flight = encoded
        return encoded.packet

    def stop(self) -> None:
        super().stop()
        if self._viewer is not None:
            self._viewer.close()

    def _tell_sent(self) -> None:
        """The sender comes for the next packet when the last one is on the wire."""
        sent, self._in_flight = self._in_flight, None
        if sent is None or self._sender is None:
            return
        self.frames_sent += 1
        rtp = sent_timestamp(self._sender)
        if rtp is not None:
            self._on_sent(SentFrame(rtp, sent, MONOTONIC.now_ns()))

    def _report_loss(self) -> None:
        if self._viewer is not None:
            self._viewer.report_loss()
