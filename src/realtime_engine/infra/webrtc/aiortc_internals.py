"""The private names of aiortc that this package uses, each checked before use.

aiortc has no public API to intercept RTCP, to choose the size and the send time of packets, to learn RTP timestamps, to
send a header extension that it does not implement, or to limit the gathering of candidates. The functions of this
module patch the objects of one connection; other users of aiortc in the process are not affected. They return ``False``
or ``None`` where this version of aiortc lacks a name: the feature is left out, and one warning says what that costs.
"""

from __future__ import annotations

import asyncio
import functools
import logging
import queue
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import nullcontext
from typing import Any

import aiortc
from aiortc import RTCDtlsTransport, RTCRtpReceiver, RTCRtpSender, RTCRtpTransceiver, rtp
from aiortc.codecs.base import Encoder
from aiortc.jitterbuffer import JitterFrame
from aiortc.rtcicetransport import RTCIceGatherer
from aiortc.rtcrtpparameters import RTCRtpHeaderExtensionParameters

from .jitter_buffer import DecoderQueue, EncodedPicture
from .udp_ports import UdpPorts, binding_within

logger = logging.getLogger(__name__)

VERIFIED_VERSIONS = ("1.15", "1.16")
"""The releases of aiortc whose private names were checked; pyproject.toml allows these and no others."""

_LOOPBACK = ["127.0.0.1"]
_RTCP_HANDLER = "_handle_rtcp_packet"
_SEND = "_send_rtp"
_RECEIVE = "_recv_next"
_ROUTER = "_rtp_router"
_ENCODER = "_RTCRtpSender__encoder"
_LAST_REPORT = "_RTCRtpSender__lsr"
_SENT_TIMESTAMP = "_RTCRtpSender__rtp_timestamp"
_SEND_PLI = "_send_rtcp_pli"
_TIMESTAMP_MAPPER = "_RTCRtpReceiver__timestamp_mapper"
_JITTER_BUFFER = "_RTCRtpReceiver__jitter_buffer"
_NACK_GENERATOR = "_RTCRtpReceiver__nack_generator"
_RECEIVED_CODECS = "_RTCRtpReceiver__codecs"
_DECODER_QUEUE = "_RTCRtpReceiver__decoder_queue"
_NEGOTIATED_EXTENSIONS = "_headerExtensions"
_SENT_EXTENSIONS = "_RTCRtpSender__rtp_header_extensions_map"
_RECEIVED_EXTENSIONS = "_rtp_header_extensions_map"


@functools.cache
def report_missing(name: str, consequence: str) -> None:
    """Log once that aiortc lacks ``name``."""
    logger.warning(
        "aiortc %s has no %s (verified versions: %s): %s",
        aiortc.__version__,
        name,
        ", ".join(VERIFIED_VERSIONS),
        consequence,
    )


# -- sending


def intercept_rtcp(sender: RTCRtpSender, on_packet: Callable[[Any], Any | None]) -> bool:
    """Call ``on_packet`` with each RTCP packet for ``sender``, which then handles the returned packet, if any."""
    handle = getattr(sender, _RTCP_HANDLER, None)
    if not callable(handle):
        report_missing(_RTCP_HANDLER, "keyframes are sent every other second instead of on loss")
        return False

    async def intercept(packet: Any) -> None:
        rest = on_packet(packet)
        if rest is not None:
            await handle(rest)

    setattr(sender, _RTCP_HANDLER, intercept)
    return True


def route_rtcp(sender: RTCRtpSender, matches: Callable[[Any], bool]) -> bool:
    """Route to ``sender`` also the RTCP packets for which ``matches`` returns true."""
    router = getattr(sender.transport, _ROUTER, None)
    route = getattr(router, "route_rtcp", None)
    if router is None or not callable(route):
        report_missing("route_rtcp", "a full intra request may not be answered with a keyframe")
        return False

    def route_more(packet: Any) -> Any:
        return {*route(packet), sender} if matches(packet) else route(packet)

    router.route_rtcp = route_more
    return True


def intercept_rtp(
    sender: RTCRtpSender, before_packet: Callable[[int, int], Awaitable[None]], on_report: Callable[[], None]
) -> bool:
    """Call back before each RTP packet and each sender report of ``sender``. Call it when the sender is connected.

    Args:
        sender: the sender.
        before_packet: awaited with the sequence number and size of each RTP packet before it is sent.
        on_report: called before each sender report.
    """
    transport: Any = sender.transport
    send = getattr(transport, _SEND, None)
    if not callable(send):
        report_missing(_SEND, "large frames are sent in bursts, and outdated packets are retransmitted")
        return False
    ssrc = sender._ssrc.to_bytes(4, "big")

    async def intercept(packet: bytes) -> None:
        if packet[8:12] == ssrc and not rtp.is_rtcp(packet):
            await before_packet(int.from_bytes(packet[2:4], "big"), len(packet))
        elif packet[4:8] == ssrc and packet[1] == rtp.RTCP_SR:
            on_report()
        await send(packet)

    setattr(transport, _SEND, intercept)
    return True


class _Payloads(Encoder):
    """Passes existing payloads on where aiortc expects an encoder."""

    def __init__(self, payloads: Callable[[], list[bytes]]) -> None:
        self._payloads = payloads

    def encode(self, frame: Any, force_keyframe: bool = False) -> tuple[list[bytes], int]:
        raise TypeError(f"expected an encoded packet, got {frame!r}")

    def pack(self, packet: Any) -> tuple[list[bytes], int]:
        return self._payloads(), packet.pts


def send_payloads(sender: RTCRtpSender, payloads: Callable[[], list[bytes]]) -> bool:
    """Let ``sender`` send the returned payloads for each packet of its track, which is timed in 90 kHz.

    Where that is not possible, aiortc packetizes.
    """
    if not hasattr(sender, _ENCODER):
        report_missing(_ENCODER, "datagrams are larger than 1200 bytes")
        return False
    setattr(sender, _ENCODER, _Payloads(payloads))
    return True


def sent_timestamp(sender: RTCRtpSender) -> int | None:
    """The RTP timestamp of the newest packet sent; ``None`` if unknown."""
    timestamp = getattr(sender, _SENT_TIMESTAMP, None)
    if not isinstance(timestamp, int):
        report_missing(_SENT_TIMESTAMP, "viewers are not sent the identity of their frames")
        return None
    return timestamp


def answers_last_report(sender: RTCRtpSender, report: rtp.RtcpReceiverInfo) -> bool:
    """Whether the receiver report answers the newest sender report of ``sender`` (RFC 3550, section 6.4.1).

    It may answer an older one with the same identifier: aiortc takes the identifier from the packet before the report.
    """
    if not hasattr(sender, _LAST_REPORT):
        report_missing(_LAST_REPORT, "congestion is detected late")
        return False
    return bool(report.dlsr) and report.lsr == getattr(sender, _LAST_REPORT)


# -- receiving


def ignore_bad_datagrams(transport: RTCDtlsTransport) -> bool:
    """Let ``transport`` drop a datagram that aiortc cannot parse, instead of ending the connection.

    Anyone can send such a datagram to an open port; an empty one is enough.
    """
    receive = getattr(transport, _RECEIVE, None)
    if not callable(receive):
        report_missing(_RECEIVE, "a malformed datagram ends a connection")
        return False

    async def receive_next() -> None:
        try:
            await receive()
        except ConnectionError:
            raise
        except Exception as error:  # aiortc parses untrusted bytes without validation
            logger.debug("dropped a datagram: %r", error)

    setattr(transport, _RECEIVE, receive_next)
    return True


def received_timestamp(receiver: RTCRtpReceiver, pts: int) -> int | None:
    """The RTP timestamp of a received frame with this ``pts``; ``None`` if unknown."""
    origin = getattr(getattr(receiver, _TIMESTAMP_MAPPER, None), "_origin", None)
    if not isinstance(origin, int):
        report_missing(_TIMESTAMP_MAPPER, "received frames have no identity")
        return None
    return (origin + pts) & 0xFFFFFFFF


class _JitterBuffer:
    """Replaces aiortc's jitter buffer, which waits for a lost packet until 128 more have arrived."""

    def __init__(self, add: Callable[[str, Any], tuple[list[EncodedPicture], bool]], receiver: Any) -> None:
        self._add = add
        self._codecs = getattr(receiver, _RECEIVED_CODECS)
        self._queue = getattr(receiver, _DECODER_QUEUE)
        self._mapper = getattr(receiver, _TIMESTAMP_MAPPER)

    def add(self, packet: Any) -> tuple[bool, JitterFrame | None]:
        codec = self._codecs[packet.payload_type]
        pictures, needs_keyframe = self._add(codec.name, packet)
        frames = [JitterFrame(data=picture.data, timestamp=picture.timestamp) for picture in pictures]
        for frame in frames[:-1]:  # aiortc takes one frame a packet
            frame.timestamp = self._mapper.map(frame.timestamp)
            self._queue.put((codec, frame))
        return needs_keyframe, frames[-1] if frames else None


def replace_jitter_buffer(
    receiver: RTCRtpReceiver, add: Callable[[str, Any], tuple[list[EncodedPicture], bool]]
) -> bool:
    """Let ``add`` assemble pictures from the packets of ``receiver``.

    Args:
        receiver: the receiver.
        add: called with the codec's name and a packet, whose depacketized payload is in ``_data``; returns pictures to
            decode, and whether to send a picture loss indication.
    """
    needed = (_JITTER_BUFFER, _RECEIVED_CODECS, _DECODER_QUEUE, _TIMESTAMP_MAPPER)
    missing = [name for name in needed if not hasattr(receiver, name)]
    if missing:
        report_missing(missing[0], "received video freezes for seconds after a loss")
        return False
    setattr(receiver, _JITTER_BUFFER, _JitterBuffer(add, receiver))
    return True


class _NackGenerator:
    """Replaces aiortc's, which sends a NACK only when a new gap appears, and then for everything that is missing."""

    def __init__(self, on_packet: Callable[[int], list[int]]) -> None:
        self._on_packet = on_packet
        self.missing: list[int] = []

    def add(self, packet: Any) -> bool:
        self.missing = self._on_packet(packet.sequence_number)
        return bool(self.missing)


def replace_nack_generator(receiver: RTCRtpReceiver, on_packet: Callable[[int], list[int]]) -> bool:
    """Request the numbers that ``on_packet`` returns for the sequence number of each received packet."""
    if not hasattr(getattr(receiver, _NACK_GENERATOR, None), "missing"):
        report_missing(_NACK_GENERATOR, "a packet that is lost twice is not requested again")
        return False
    setattr(receiver, _NACK_GENERATOR, _NackGenerator(on_packet))
    return True


async def request_keyframe(receiver: RTCRtpReceiver) -> None:
    """Send a picture loss indication (RFC 4585) to each sender of ``receiver``."""
    send = getattr(receiver, _SEND_PLI, None)
    if not callable(send):
        report_missing(_SEND_PLI, "after a loss, video continues with the sender's next keyframe")
        return
    for source in receiver.getSynchronizationSources():
        await send(source.source)


def limit_sources(receiver: RTCRtpReceiver, limit: int) -> bool:
    """Drop packets of all but the first ``limit`` streams (SSRC) of the connection; aiortc keeps state for each."""
    router: Any = getattr(receiver.transport, _ROUTER, None)
    route = getattr(router, "route_rtp", None)
    if not callable(route):
        report_missing(_ROUTER, "a sender that invents streams can exhaust the memory")
        return False
    known: set[int] = set()

    def route_known(packet: Any) -> Any:
        if packet.ssrc not in known:
            if len(known) >= limit:
                return None
            known.add(packet.ssrc)
        return route(packet)

    router.route_rtp = route_known
    return True


def replace_decoder_queue(receiver: RTCRtpReceiver, frames: DecoderQueue) -> bool:
    """Queue encoded frames for the decoder thread in ``frames``. Call it before the connection is made."""
    if not isinstance(getattr(receiver, _DECODER_QUEUE, None), queue.Queue):
        report_missing(_DECODER_QUEUE, "a sender that is faster than the decoder can exhaust the memory")
        return False
    setattr(receiver, _DECODER_QUEUE, frames)
    return True


def emit_at_marker(receiver: RTCRtpReceiver) -> bool:
    """Emit each frame with its last packet, which has the marker bit (RFC 6184, RFC 7741).

    aiortc waits for the first packet of the next frame, so each frame is late by one and the last is never emitted.
    Call it before media arrives.
    """
    buffer: Any = getattr(receiver, _JITTER_BUFFER, None)
    needed = ("add", "remove", "capacity", "_packets", "_origin")
    if not all(hasattr(buffer, name) for name in needed):
        report_missing(_JITTER_BUFFER, "received video is a frame late")
        return False
    add = buffer.add

    def add_and_complete(packet: Any) -> tuple[bool, JitterFrame | None]:
        lost, frame = add(packet)
        if frame is None or not frame.data:  # padding makes an empty frame, which would end a decoder
            frame = _complete(buffer)
        return lost, frame

    buffer.add = add_and_complete
    return True


def _complete(buffer: Any) -> JitterFrame | None:
    """Remove and return the oldest frame if all of its packets up to the marker have arrived."""
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


# -- header extensions (RFC 8285); to be called between the remote offer and the answer


def send_extension(transceiver: RTCRtpTransceiver, extension_id: int, uri: str, value: bytes) -> bool:
    """Accept the extension ``uri`` under the number of the remote offer, and send ``value`` in it with each packet."""
    extensions: Any = getattr(transceiver.sender, _SENT_EXTENSIONS, None)
    known = getattr(extensions, "set", None)
    if not callable(known) or not _negotiate(transceiver, extension_id, uri):
        report_missing(_SENT_EXTENSIONS, "browsers may delay the video by tens of milliseconds")
        return False

    def set_all(values: Any) -> Any:
        return rtp.pack_header_extensions([*rtp.unpack_header_extensions(*known(values)), (extension_id, value)])

    extensions.set = set_all
    return True


def receive_extension(
    transceiver: RTCRtpTransceiver, extension_id: int, uri: str, on_value: Callable[[bytes], None]
) -> bool:
    """Accept the extension ``uri`` under the number of the remote offer, and call ``on_value`` with each value."""
    extensions: Any = getattr(transceiver.receiver.transport, _RECEIVED_EXTENSIONS, None)
    known = getattr(extensions, "get", None)
    if not callable(known) or not _negotiate(transceiver, extension_id, uri):
        report_missing(_RECEIVED_EXTENSIONS, f"{uri} is not read")
        return False

    def get_all(profile: int, value: bytes) -> Any:
        values = known(profile, value)
        for number, content in rtp.unpack_header_extensions(profile, value):
            if number == extension_id:
                on_value(content)
        return values

    extensions.get = get_all
    return True


def _negotiate(transceiver: RTCRtpTransceiver, extension_id: int, uri: str) -> bool:
    negotiated = getattr(transceiver, _NEGOTIATED_EXTENSIONS, None)
    if not isinstance(negotiated, list):
        return False
    negotiated.append(RTCRtpHeaderExtensionParameters(id=extension_id, uri=uri))
    return True


# -- gathering


def limit_gathering(
    gatherer: RTCIceGatherer, deadline_s: float, *, relay_only: bool = False, ports: UdpPorts | None = None
) -> bool:
    """Stop waiting for STUN and TURN servers after ``deadline_s``, and offer the loopback address without any network.

    aioice itself waits 5 s, never offers loopback, and binds to any port.

    Args:
        gatherer: the gatherer of one transport.
        deadline_s: seconds.
        relay_only: gather from the TURN server alone.
        ports: where sockets are bound.
    """
    connection = getattr(gatherer, "_connection", None)
    gather = getattr(connection, "get_component_candidates", None)
    if connection is None or not callable(gather):
        report_missing("get_component_candidates", "STUN may delay viewers by 5 s, and any port and address is used")
        return False

    async def gather_in_time(component: int, addresses: list[str], timeout: float = deadline_s) -> Any:
        if relay_only:
            addresses = []
        elif not addresses and connection.turn_server is None:
            addresses = _LOOPBACK
        with binding_within(ports) if ports is not None else nullcontext():
            candidates = await _uninterrupted(gather(component, addresses, timeout=deadline_s))
        for protocol in getattr(connection, "_protocols", ()):
            _ignore_bad_messages(protocol)
        return candidates

    connection.get_component_candidates = gather_in_time
    return True


async def _uninterrupted(gathering: Coroutine[Any, Any, Any]) -> Any:
    """Await it; a cancellation takes effect when it has ended, as a gathering cut off leaves its sockets open."""
    task = asyncio.ensure_future(gathering)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait({task})
        raise


def _ignore_bad_messages(protocol: Any) -> None:
    """Drop STUN messages that aioice cannot parse; it would log a traceback for each."""
    receive = getattr(protocol, "datagram_received", None)
    if not callable(receive):
        return

    def receive_next(data: bytes, address: Any) -> None:
        try:
            receive(data, address)
        except Exception as error:
            logger.debug("dropped a datagram of %s: %r", address, error)

    protocol.datagram_received = receive_next
