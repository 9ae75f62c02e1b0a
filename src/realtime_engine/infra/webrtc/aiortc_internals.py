"""The private names of aiortc that this package uses, each checked before use.

aiortc has no public way to hear a viewer's reports, to choose the size of packets and when they are sent, to learn the
RTP timestamp that a frame was sent with, to send a header extension that it does not know, or to bound the gathering of
candidates. All of these names are unchanged from
aiortc 1.9 to 1.16. Whatever is changed is changed on one connection's objects: other users of aiortc in this process
notice nothing. Where one is missing, the feature that needs it is left out, and one warning says so.
"""

from __future__ import annotations

import asyncio
import functools
import logging
import queue
import re
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import nullcontext
from typing import Any

from aiortc import RTCDtlsTransport, RTCRtpReceiver, RTCRtpSender, RTCRtpTransceiver, rtp
from aiortc.codecs.base import Encoder
from aiortc.jitterbuffer import JitterFrame
from aiortc.rtcicetransport import RTCIceGatherer
from aiortc.rtcrtpparameters import RTCRtpHeaderExtensionParameters

from .jitter_buffer import EncodedPicture
from .udp_ports import UdpPorts, binding_within

logger = logging.getLogger(__name__)

_LOOPBACK = ["127.0.0.1"]
_RTCP_HANDLER = "_handle_rtcp_packet"
_SEND = "_send_rtp"
_RECEIVE = "_recv_next"
_ENCODER = "_RTCRtpSender__encoder"
_REPORTED = "_RTCRtpSender__lsr"
_SENT_TIMESTAMP = "_RTCRtpSender__rtp_timestamp"
_TIMESTAMP_MAPPER = "_RTCRtpReceiver__timestamp_mapper"
_JITTER_BUFFER = "_RTCRtpReceiver__jitter_buffer"
_NACK_GENERATOR = "_RTCRtpReceiver__nack_generator"
_RECEIVED_CODECS = "_RTCRtpReceiver__codecs"
_DECODER_QUEUE = "_RTCRtpReceiver__decoder_queue"
_NEGOTIATED = "_headerExtensions"
_EXTENSIONS_MAP = "_RTCRtpSender__rtp_header_extensions_map"


@functools.cache
def _report_missing(name: str, consequence: str) -> None:
    logger.warning("this version of aiortc has no %s: %s", name, consequence)


def hear_rtcp(sender: RTCRtpSender, hear: Callable[[Any], Any | None]) -> bool:
    """Call ``hear`` with each RTCP packet for ``sender``, which then handles what that returns, if anything.

    False when that is not possible.
    """
    handle = getattr(sender, _RTCP_HANDLER, None)
    if not callable(handle):
        _report_missing(_RTCP_HANDLER, "keyframes come every other second instead of on loss")
        return False

    async def hear_and_handle(packet: Any) -> None:
        rest = hear(packet)
        if rest is not None:
            await handle(rest)

    setattr(sender, _RTCP_HANDLER, hear_and_handle)
    return True


def route_rtcp(sender: RTCRtpSender, is_for_it: Callable[[Any], bool]) -> bool:
    """Give ``sender`` also the RTCP packets that ``is_for_it`` recognises. False when that is not possible."""
    router = getattr(sender.transport, "_rtp_router", None)
    route = getattr(router, "route_rtcp", None)
    if router is None or not callable(route):
        _report_missing("route_rtcp", "a full intra request may bring no keyframe")
        return False

    def route_more(packet: Any) -> Any:
        return {*route(packet), sender} if is_for_it(packet) else route(packet)

    router.route_rtcp = route_more
    return True


def watch_packets(
    sender: RTCRtpSender, before: Callable[[int, int], Awaitable[None]], reports: Callable[[], None]
) -> bool:
    """Await ``before`` with sequence number and size of each RTP packet that ``sender`` is about to send, and call
    ``reports`` before each of its sender reports.

    Call it when the sender is connected. False when that is not possible.
    """
    transport: Any = sender.transport
    send = getattr(transport, _SEND, None)
    if not callable(send):
        _report_missing(_SEND, "large frames are sent in bursts, and old packets again")
        return False
    ssrc = sender._ssrc.to_bytes(4, "big")

    async def watch_and_send(packet: bytes) -> None:
        if packet[8:12] == ssrc and not rtp.is_rtcp(packet):
            await before(int.from_bytes(packet[2:4], "big"), len(packet))
        elif packet[4:8] == ssrc and packet[1] == rtp.RTCP_SR:
            reports()
        await send(packet)

    setattr(transport, _SEND, watch_and_send)
    return True


def outlive_bad_datagrams(transport: RTCDtlsTransport) -> bool:
    """Let ``transport`` pass over a datagram that aiortc stumbles over, where it would end the connection.

    An empty one is enough for that, and anybody can send one to an open port. False when that is not possible.
    """
    receive = getattr(transport, _RECEIVE, None)
    if not callable(receive):
        _report_missing(_RECEIVE, "a malformed datagram ends a connection")
        return False

    async def receive_and_go_on() -> None:
        try:
            await receive()
        except ConnectionError:
            raise
        except Exception as error:  # a stranger's bytes, which aiortc takes apart without much ado
            logger.debug("passed over a datagram: %r", error)

    setattr(transport, _RECEIVE, receive_and_go_on)
    return True


class _Payloads(Encoder):
    """Stands where aiortc expects an encoder, and gives it payloads that exist already."""

    def __init__(self, payloads: Callable[[], list[bytes]]) -> None:
        self._payloads = payloads

    def encode(self, frame: Any, force_keyframe: bool = False) -> tuple[list[bytes], int]:
        raise TypeError(f"expected an encoded packet, got {frame!r}")

    def pack(self, packet: Any) -> tuple[list[bytes], int]:
        return self._payloads(), packet.pts


def take_payloads(sender: RTCRtpSender, payloads: Callable[[], list[bytes]]) -> bool:
    """Let ``sender`` send what ``payloads`` returns for each packet of its track, which is in 90 kHz.

    False when that is not possible: it then makes payloads of the packet itself.
    """
    if not hasattr(sender, _ENCODER):
        _report_missing(_ENCODER, "datagrams are larger than 1200 bytes")
        return False
    setattr(sender, _ENCODER, _Payloads(payloads))
    return True


def sent_timestamp(sender: RTCRtpSender) -> int | None:
    """The RTP timestamp of the packet that was sent last, ``None`` if it cannot be known."""
    timestamp = getattr(sender, _SENT_TIMESTAMP, None)
    if not isinstance(timestamp, int):
        _report_missing(_SENT_TIMESTAMP, "viewers are not told which frame they see")
        return None
    return timestamp


def is_answer(sender: RTCRtpSender, report: rtp.RtcpReceiverInfo) -> bool:
    """Whether the receiver's report answers the last report of ``sender`` (RFC 3550 section 6.4.1).

    It may answer an older one of the same name: aiortc calls them by the last packet before them.
    """
    if not hasattr(sender, _REPORTED):
        _report_missing(_REPORTED, "congestion is noticed late")
        return False
    return bool(report.dlsr) and report.lsr == getattr(sender, _REPORTED)


def received_timestamp(receiver: RTCRtpReceiver, pts: int) -> int | None:
    """The RTP timestamp of a received frame with this ``pts``, ``None`` if it cannot be known."""
    origin = getattr(getattr(receiver, _TIMESTAMP_MAPPER, None), "_origin", None)
    if not isinstance(origin, int):
        _report_missing(_TIMESTAMP_MAPPER, "received frames have no identity")
        return None
    return (origin + pts) & 0xFFFFFFFF


class _Reassembler:
    """Stands where aiortc expects its jitter buffer, which would wait for a lost packet until 128 have come."""

    def __init__(self, add: Callable[[str, Any], tuple[list[EncodedPicture], bool]], receiver: Any) -> None:
        self._add = add
        self._codecs = getattr(receiver, _RECEIVED_CODECS)
        self._queue = getattr(receiver, _DECODER_QUEUE)
        self._mapper = getattr(receiver, _TIMESTAMP_MAPPER)

    def add(self, packet: Any) -> tuple[bool, JitterFrame | None]:
        codec = self._codecs[packet.payload_type]
        pictures, stuck = self._add(codec.name, packet)
        frames = [JitterFrame(data=picture.data, timestamp=picture.timestamp) for picture in pictures]
        for frame in frames[:-1]:
            frame.timestamp = self._mapper.map(frame.timestamp)
            self._queue.put((codec, frame))
        return stuck, frames[-1] if frames else None


def reassemble(receiver: RTCRtpReceiver, add: Callable[[str, Any], tuple[list[EncodedPicture], bool]]) -> bool:
    """Let ``add`` make pictures of what ``receiver`` receives.

    It is given the codec's name and a packet whose payload is in ``_data`` too; it returns pictures to decode, and
    whether to report a picture loss. False when that is not possible.
    """
    needed = (_JITTER_BUFFER, _RECEIVED_CODECS, _DECODER_QUEUE, _TIMESTAMP_MAPPER)
    missing = [name for name in needed if not hasattr(receiver, name)]
    if missing:
        _report_missing(missing[0], "a received video freezes for long after a loss")
        return False
    setattr(receiver, _JITTER_BUFFER, _Reassembler(add, receiver))
    return True


class _Requester:
    """Stands where aiortc expects its list of missing packets, which it sends at a new gap only, and then all of it."""

    def __init__(self, hear: Callable[[int], list[int]]) -> None:
        self._hear = hear
        self.missing: list[int] = []

    def add(self, packet: Any) -> bool:
        self.missing = self._hear(packet.sequence_number)
        return bool(self.missing)


def request_missing(receiver: RTCRtpReceiver, hear: Callable[[int], list[int]]) -> bool:
    """Ask for the packets that ``hear`` returns when it is told the number of each one that ``receiver`` receives.

    False when that is not possible.
    """
    if not hasattr(getattr(receiver, _NACK_GENERATOR, None), "missing"):
        _report_missing(_NACK_GENERATOR, "a packet that is lost twice is not asked for again")
        return False
    setattr(receiver, _NACK_GENERATOR, _Requester(hear))
    return True


def extend_headers(transceiver: RTCRtpTransceiver, extension_id: int, uri: str, value: bytes) -> bool:
    """Accept the header extension ``uri`` (RFC 8285) that a remote offer numbered ``extension_id``, and send ``value``
    in it with each packet.

    Call it between the remote offer and the answer. False when that is not possible.
    """
    negotiated = getattr(transceiver, _NEGOTIATED, None)
    extensions: Any = getattr(transceiver.sender, _EXTENSIONS_MAP, None)
    pack, unpack = getattr(rtp, "pack_header_extensions", None), getattr(rtp, "unpack_header_extensions", None)
    known = getattr(extensions, "set", None)
    if not (isinstance(negotiated, list) and callable(known) and callable(pack) and callable(unpack)):
        _report_missing(_EXTENSIONS_MAP, "browsers may delay the video by some ten milliseconds")
        return False

    def set_all(values: Any) -> Any:
        return pack([*unpack(*known(values)), (extension_id, value)])

    negotiated.append(RTCRtpHeaderExtensionParameters(id=extension_id, uri=uri))
    extensions.set = set_all
    return True


def bound_gathering(
    gatherer: RTCIceGatherer, deadline_s: float, *, relay_only: bool = False, ports: UdpPorts | None = None
) -> None:
    """Give up STUN and TURN servers that have not answered by then; without any network, offer the loopback address.

    aioice itself waits 5 s, never offers loopback, and takes any port.

    Args:
        relay_only: gather from the TURN server alone.
        ports: where sockets are bound.
    """
    connection = getattr(gatherer, "_connection", None)
    gather = getattr(connection, "get_component_candidates", None)
    if connection is None or not callable(gather):
        _report_missing("get_component_candidates", "STUN may delay viewers by 5 s, any port and address is used")
        return

    async def gather_in_time(component: int, addresses: list[str], timeout: float = deadline_s) -> Any:
        if relay_only:
            addresses = []
        elif not addresses and connection.turn_server is None:
            addresses = _LOOPBACK
        with binding_within(ports) if ports is not None else nullcontext():
            candidates = await _to_the_end(gather(component, addresses, timeout=deadline_s))
        for protocol in getattr(connection, "_protocols", ()):
            _outlive_bad_messages(protocol)
        return candidates

    connection.get_component_candidates = gather_in_time


async def _to_the_end(gathering: Coroutine[Any, Any, Any]) -> Any:
    """Await it; when that is cancelled, wait for its end first: cut off, it forgets sockets that it has opened."""
    task = asyncio.ensure_future(gathering)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait({task})
        raise


def _outlive_bad_messages(protocol: Any) -> None:
    """Let a socket of aioice pass over STUN messages that it stumbles over, which would fill the log otherwise."""
    hear = getattr(protocol, "datagram_received", None)
    if not callable(hear):
        return

    def hear_and_go_on(data: bytes, address: Any) -> None:
        try:
            hear(data, address)
        except Exception as error:
            logger.debug("passed over a datagram of %s: %r", address, error)

    protocol.datagram_received = hear_and_go_on


_ROUTER = "_rtp_router"
_SEND_PLI = "_send_rtcp_pli"
_RECEPTION_EXTENSIONS_MAP = "_rtp_header_extensions_map"
_H264_STARTS_ANEW = re.compile(rb"\x00\x00\x01[\x05\x07\x25\x27\x45\x47\x65\x67]")  # an IDR picture or its parameters


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
    extensions: Any = getattr(transceiver.receiver.transport, _RECEPTION_EXTENSIONS_MAP, None)
    known, unpack = getattr(extensions, "get", None), getattr(rtp, "unpack_header_extensions", None)
    if not (isinstance(negotiated, list) and callable(known) and callable(unpack)):
        _report_missing(_RECEPTION_EXTENSIONS_MAP, f"{uri} is not read")
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
