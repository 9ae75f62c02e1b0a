"""The private names of aiortc's receiver that this package uses, each checked before use.

aiortc has no public way to ask a sender for a keyframe or to read a header extension that it does not know, gives a
frame out only when the next one begins, and queues encoded frames without a bound. All of these names are unchanged
from aiortc 1.9 to 1.16. Whatever is changed is changed on one connection's objects. Where one is missing, the feature
that needs it is left out, and one warning says so.
"""

from __future__ import annotations

import functools
import logging
import queue
import re
from collections.abc import Callable
from typing import Any

from aiortc import RTCRtpReceiver, RTCRtpTransceiver, rtp
from aiortc.jitterbuffer import JitterFrame
from aiortc.rtcrtpparameters import RTCRtpHeaderExtensionParameters

logger = logging.getLogger(__name__)

_DECODER_QUEUE = "_RTCRtpReceiver__decoder_queue"
_JITTER_BUFFER = "_RTCRtpReceiver__jitter_buffer"
_ROUTER = "_rtp_router"
_SEND_PLI = "_send_rtcp_pli"
_NEGOTIATED = "_headerExtensions"
_EXTENSIONS_MAP = "_rtp_header_extensions_map"
_H264_STARTS_ANEW = re.compile(rb"\x00\x00\x01[\x05\x07\x25\x27\x45\x47\x65\x67]")  # an IDR picture or its parameters


@functools.cache
def _report_missing(name: str, consequence: str) -> None:
    logger.warning("this version of aiortc has no %s: %s", name, consequence)


async def request_keyframe(receiver: RTCRtpReceiver) -> None:
    """Send a picture loss indication (RFC 4585) to whoever sends."""
    send = getattr(receiver, _SEND_PLI, None)
    if not callable(send):
        _report_missing(_SEND_PLI, "lost video comes back with the sender's next keyframe")
        return
    for source in receiver.getSynchronizationSources():
        await send(source.source)


def bound_decoding(receiver: RTCRtpReceiver, most: int, on_drop: Callable[[], None]) -> bool:
    """Let at most ``most`` encoded frames wait for the decoder; call it before the connection is made.

    When there are more, frames are left out up to the next keyframe, and ``on_drop`` is called for each. False when
    that is not possible.
    """
    if not isinstance(getattr(receiver, _DECODER_QUEUE, None), queue.Queue):
        _report_missing(_DECODER_QUEUE, "a sender that is faster than the decoder fills the memory")
        return False
    setattr(receiver, _DECODER_QUEUE, DecoderQueue(most, on_drop))
    return True


def bound_sources(receiver: RTCRtpReceiver, most: int) -> bool:
    """Hear at most ``most`` streams (SSRC) on the connection of ``receiver``: aiortc remembers each that it ever heard.

    False when that is not possible.
    """
    router: Any = getattr(receiver.transport, _ROUTER, None)
    route = getattr(router, "route_rtp", None)
    if not callable(route):
        _report_missing(_ROUTER, "a sender that makes up streams fills the memory")
        return False
    known: set[int] = set()

    def route_known(packet: Any) -> Any:
        if packet.ssrc not in known:
            if len(known) >= most:
                return None
            known.add(packet.ssrc)
        return route(packet)

    router.route_rtp = route_known
    return True


class DecoderQueue(queue.Queue[Any]):
    """Encoded frames for aiortc's decoder thread: ``(codec, frame)``, ``None`` to end it."""

    def __init__(self, most: int, on_drop: Callable[[], None]) -> None:
        super().__init__()
        self._most = most
        self._on_drop = on_drop
        self._skipping = False

    def put(self, item: Any, block: bool = True, timeout: float | None = None) -> None:
        if item is None or self._takes(*item):
            super().put(item)
        else:
            self._on_drop()

    def _takes(self, codec: Any, frame: JitterFrame) -> bool:
        if self.qsize() >= self._most:
            self._skipping = True
        elif self._skipping and starts_anew(codec.name, frame.data):
            self._skipping = False
        return not self._skipping


def starts_anew(codec: str, data: bytes) -> bool:
    """Whether a decoder can begin with this frame (RFC 6386 section 9.1, H.264 section 7.4.1)."""
    if codec.upper() == "VP8":
        return bool(data) and not data[0] & 1
    return _H264_STARTS_ANEW.search(data) is not None


def emit_at_marker(receiver: RTCRtpReceiver) -> bool:
    """Let frames out with their last packet, which has the marker bit (RFC 6184, RFC 7741); call it before media comes.

    aiortc itself waits for the first packet of the next frame: a frame's time, and for ever for the last one. False
    when that is not possible.
    """
    buffer: Any = getattr(receiver, _JITTER_BUFFER, None)
    needed = ("add", "remove", "capacity", "_packets", "_origin")
    if not all(hasattr(buffer, name) for name in needed):
        _report_missing(_JITTER_BUFFER, "received video is a frame late")
        return False
    add = buffer.add

    def add_and_complete(packet: Any) -> tuple[bool, JitterFrame | None]:
        lost, frame = add(packet)
        if frame is None or not frame.data:  # padding, which is no frame, and would end a decoder
            frame = _complete(buffer)
        return lost, frame

    buffer.add = add_and_complete
    return True


def _complete(buffer: Any) -> JitterFrame | None:
    """Take the oldest frame out if all of its packets up to the marker are there."""
    packets: list[Any] = []
    for count in range(buffer.capacity):
        packet = buffer._packets[(buffer._origin + count) % buffer.capacity]
        if packet is None or (packets and packet.timestamp != packets[0].timestamp):
            return None
        packets.append(packet)
        if packet.marker:
            break
    else:
        return None
    data = b"".join(packet._data for packet in packets)
    buffer.remove(len(packets))
    return JitterFrame(data=data, timestamp=packets[0].timestamp) if data else None


def hear_extension(
    transceiver: RTCRtpTransceiver, extension_id: int, uri: str, on_value: Callable[[bytes], None]
) -> bool:
    """Accept the header extension ``uri`` (RFC 8285) that a remote offer numbered ``extension_id``, and hear it.

    Call it between the remote offer and the answer; ``on_value`` is called with what comes in the extension. False when
    that is not possible.
    """
    negotiated = getattr(transceiver, _NEGOTIATED, None)
    extensions: Any = getattr(transceiver.receiver.transport, _EXTENSIONS_MAP, None)
    known, unpack = getattr(extensions, "get", None), getattr(rtp, "unpack_header_extensions", None)
    if not (isinstance(negotiated, list) and callable(known) and callable(unpack)):
        _report_missing(_EXTENSIONS_MAP, f"{uri} is not read")
        return False

    def get_all(profile: int, value: bytes) -> Any:
        values = known(profile, value)
        for number, content in unpack(profile, value):
            if number == extension_id:
                on_value(content)
        return values

    negotiated.append(RTCRtpHeaderExtensionParameters(id=extension_id, uri=uri))
    extensions.get = get_all
    return True
