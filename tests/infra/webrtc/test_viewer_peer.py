from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import socket
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from aiortc import RTCPeerConnection, RTCSessionDescription
from aiortc.rtp import RTCP_PSFB_APP, RTCP_PSFB_PLI, RtcpPsfbPacket, unpack_header_extensions

from realtime_engine.infra.encoding import SOFTWARE_ENCODERS, Codec
from realtime_engine.infra.publisher import FramePublisher
from realtime_engine.infra.webrtc import (
    BadCandidateError,
    BadOfferError,
    NoCandidatesError,
    PeerClosedError,
    PeerOptions,
    PeerTimeouts,
    SharedVideo,
    Tier,
    ViewerCloseReason,
    ViewerPeer,
    WebRtcReceiver,
)

from .support import CountingFactory, Player, luma, psnr, shared, until

BOTH = pytest.mark.parametrize("codec", list(Codec))


class Viewer:
    """Both ends of one viewer's connection."""

    def __init__(self, receiver: WebRtcReceiver, peer: ViewerPeer, reasons: asyncio.Queue[ViewerCloseReason]) -> None:
        self.receiver = receiver
        self.peer = peer
        self.reasons = reasons

    async def close(self) -> None:
        await self.receiver.close()
        await self.peer.close()


@pytest.fixture
async def source() -> FramePublisher:
    return FramePublisher()


@pytest.fixture
async def connect() -> AsyncIterator[Any]:
    viewers: list[Viewer] = []

    async def connect(video: SharedVideo, codec: Codec = Codec.VP8, **options: Any) -> Viewer:
        receiver = WebRtcReceiver(codecs=[codec])
        reasons: asyncio.Queue[ViewerCloseReason] = asyncio.Queue()
        options.setdefault("on_controls", lambda text: [])
        peer = await ViewerPeer.from_offer(
            await receiver.offer(), source=video, on_closed=reasons.put_nowait, **options
        )
        viewers.append(Viewer(receiver, peer, reasons))
        await receiver.set_answer(peer.answer)
        return viewers[-1]

    yield connect
    for viewer in viewers:
        await viewer.close()


async def identified(viewer: Viewer, count: int) -> list[Any]:
    """The next frames with an identity."""
    frames: list[Any] = []
    while len(frames) < count:
        frame = await viewer.receiver.next_frame()
        if frame.info is not None:
            frames.append(frame)
    return frames


@BOTH
async def test_pictures_arrive_with_their_identity(source: FramePublisher, connect: Any, codec: Codec) -> None:
    async with Player(source) as player:
        viewer = await connect(shared(source), codec)
        await viewer.receiver.channel_open()
        frames = await identified(viewer, 8)
    assert viewer.peer.codec is codec
    seqs = [frame.info.seq for frame in frames]
    assert seqs == sorted(set(seqs))
    for frame in frames:
        assert (frame.info.epoch, frame.info.index, frame.info.action_seq) == (2, 0, f"a{frame.info.seq}")
        assert frame.info.rtp == frame.rtp
        assert psnr(frame.luma(), luma(player.pictures[frame.info.seq])) > 36
        assert frame.rgb().shape == (180, 320, 3)


@BOTH
async def test_two_viewers_share_one_encode(source: FramePublisher, connect: Any, codec: Codec) -> None:
    factory = CountingFactory(SOFTWARE_ENCODERS)
    video = shared(source, factory=factory)
    async with Player(source) as player:
        one, two = await connect(video, codec), await connect(video, codec)
        for viewer in (one, two):
            for _ in range(10):
                await viewer.receiver.next_frame()
        assert video.stats[codec, Tier.FULL].viewers == 2
    assert len(factory.made) == 1
    assert factory.encodes <= len(player.pictures)


@BOTH
async def test_a_late_viewer_starts_at_a_new_keyframe(source: FramePublisher, connect: Any, codec: Codec) -> None:
    video = shared(source)
    async with Player(source) as player:
        first = await connect(video, codec)
        await first.receiver.next_frame()
        assert video.stats[codec, Tier.FULL].keyframes == 1
        late = await connect(video, codec)
        (frame, *_) = await identified(late, 1)
        assert psnr(frame.luma(), luma(player.pictures[frame.info.seq])) > 36
        assert video.stats[codec, Tier.FULL].keyframes == 2


async def test_a_picture_loss_report_brings_a_keyframe(source: FramePublisher, connect: Any) -> None:
    video = shared(source)
    async with Player(source):
        viewer = await connect(video)
        await viewer.receiver.next_frame()
        sender = viewer.peer._sender
        await sender._handle_rtcp_packet(RtcpPsfbPacket(fmt=RTCP_PSFB_PLI, ssrc=1, media_ssrc=sender._ssrc))
        while video.stats[Codec.VP8, Tier.FULL].keyframes < 2:
            await viewer.receiver.next_frame()


PLAYOUT = "http://www.webrtc.org/experiments/rtp-hdrext/playout-delay"
AUDIO_LEVEL = "urn:ietf:params:rtp-hdrext:ssrc-audio-level"


def extensions_of(packet: bytes) -> dict[int, bytes]:
    """Header extensions of an RTP packet without contributing sources (RFC 3550 section 5.3.1)."""
    assert packet[0] == 0x90
    end = 16 + 4 * int.from_bytes(packet[14:16], "big")
    return dict(unpack_header_extensions(int.from_bytes(packet[12:14], "big"), packet[16:end]))


async def answered(source: FramePublisher, extension: str, connect: Any, monkeypatch: pytest.MonkeyPatch) -> Viewer:
    """A viewer whose offer has ``extension`` as well."""
    offer = WebRtcReceiver.offer

    async def offer_more(receiver: WebRtcReceiver) -> str:
        return (await offer(receiver)).replace("a=rtcp-mux", f"a=extmap:{extension}\r\na=rtcp-mux")

    monkeypatch.setattr(WebRtcReceiver, "offer", offer_more)
    viewer: Viewer = await connect(shared(source))
    return viewer


async def test_every_packet_has_a_playout_delay_of_zero(
    source: FramePublisher, connect: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    viewer = await answered(source, f"7 {PLAYOUT}", connect, monkeypatch)
    assert f"a=extmap:7 {PLAYOUT}" in viewer.peer.answer.splitlines()
    transport = viewer.peer._sender.transport
    send, sent = transport._send_rtp, []

    async def note_and_send(packet: bytes) -> None:
        if packet[1] & 0x7F not in range(72, 77):  # RTCP
            sent.append(packet)
        await send(packet)

    monkeypatch.setattr(transport, "_send_rtp", note_and_send)
    async with Player(source):
        for _ in range(5):
            await viewer.receiver.next_frame()
    assert len(sent) >= 5
    for packet in sent:
        extensions = extensions_of(packet)
        assert extensions[7] == b"\0\0\0"
        assert extensions[1] == viewer.peer._offer.mid.encode() and len(extensions[3]) == 3


@pytest.mark.parametrize("extension", [f"7 {AUDIO_LEVEL}", f"15 {PLAYOUT}"])
async def test_the_playout_delay_is_sent_only_if_offered(
    source: FramePublisher, extension: str, connect: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    viewer = await answered(source, extension, connect, monkeypatch)
    assert PLAYOUT not in viewer.peer.answer
    async with Player(source):
        await viewer.receiver.next_frame()


async def test_controls_and_replies_use_the_data_channel(source: FramePublisher, connect: Any) -> None:
    def answer(text: str) -> list[str]:
        if text == "break":
            raise RuntimeError("broken on purpose")
        return [text.upper(), "done"]

    viewer = await connect(shared(source), on_controls=answer)
    assert viewer.peer.send("too early") is False
    await viewer.receiver.channel_open()
    viewer.receiver.send("break")
    viewer.receiver.send("hällo")
    assert [await viewer.receiver.next_message() for _ in range(2)] == ["HÄLLO", "done"]
    assert viewer.peer.send("by the way") is True
    assert await viewer.receiver.next_message() == "by the way"


@pytest.mark.parametrize("options", [{"label": "other"}, {"label": "controls", "ordered": False}])
async def test_other_channels_are_closed(source: FramePublisher, connect: Any, options: dict[str, Any]) -> None:
    viewer = await connect(shared(source))
    await viewer.receiver.channel_open()
    channel = viewer.receiver._connection.createDataChannel(**options)
    closed = asyncio.Event()
    channel.on("close", closed.set)
    await closed.wait()


async def test_the_identity_message_can_be_replaced_or_omitted(source: FramePublisher, connect: Any) -> None:
    def message(rtp: int, frame_id: Any) -> str | None:
        return f"frame {frame_id.seq}" if frame_id.seq % 2 else None

    async with Player(source):
        viewer = await connect(shared(source), message=message)
        texts = [await viewer.receiver.next_message() for _ in range(3)]
    assert all(int(text.split()[1]) % 2 for text in texts)


async def test_closing_the_server_side_ends_the_viewer(source: FramePublisher, connect: Any) -> None:
    video = shared(source)
    async with Player(source):
        viewer = await connect(video)
        await viewer.receiver.next_frame()
        await asyncio.gather(viewer.peer.close(), viewer.peer.close())
        assert await viewer.reasons.get() is ViewerCloseReason.SERVER
        await viewer.receiver.ended()
        with pytest.raises(PeerClosedError):
            while True:
                await viewer.receiver.next_frame()
    assert video.stats[Codec.VP8, Tier.FULL].viewers == 0
    assert viewer.peer.send("gone") is False
    with pytest.raises(PeerClosedError):
        await viewer.peer.add_candidate("")


async def test_closing_the_viewer_side_ends_the_server(source: FramePublisher, connect: Any) -> None:
    video = shared(source)
    async with Player(source):
        viewer = await connect(video)
        await viewer.receiver.next_frame()
        await viewer.receiver.close()
        assert await viewer.reasons.get() is ViewerCloseReason.VIEWER
    assert video.stats[Codec.VP8, Tier.FULL].viewers == 0
    await viewer.peer.close()
    assert viewer.reasons.empty()


async def test_the_end_of_the_session_ends_its_viewers(source: FramePublisher, connect: Any) -> None:
    async with Player(source):
        viewer = await connect(shared(source))
        await viewer.receiver.next_frame()
    source.close()
    assert await viewer.reasons.get() is ViewerCloseReason.SOURCE_ENDED
    await viewer.receiver.ended()


@pytest.mark.parametrize("part", ["encoder", "sender"])
async def test_an_error_in_the_video_closes_the_connection(
    source: FramePublisher, connect: Any, part: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*_: Any, **__: Any) -> Any:
        raise RuntimeError("broken on purpose")

    factory = CountingFactory(SOFTWARE_ENCODERS)
    async with Player(source):
        viewer = await connect(shared(source, factory=factory))
        await viewer.receiver.next_frame()
        if part == "encoder":
            factory.made[0].encode = broken
            monkeypatch.setattr(factory.made[0], "encode", broken)
        else:
            monkeypatch.setattr("realtime_engine.infra.webrtc.sender.sent_timestamp", broken)
        assert await viewer.reasons.get() is ViewerCloseReason.FAILED
        await viewer.receiver.ended()
    assert "broken on purpose" in caplog.text


async def test_closing_while_it_connects_leaves_nothing_running(source: FramePublisher) -> None:
    before = asyncio.all_tasks()
    for moment_ms in range(0, 70, 10):
        receiver = WebRtcReceiver()
        peer = await ViewerPeer.from_offer(await receiver.offer(), source=shared(source), on_controls=lambda text: [])
        await receiver.set_answer(peer.answer)
        await asyncio.sleep(moment_ms / 1000)
        await asyncio.gather(peer.close(), receiver.close())
    await until(lambda: asyncio.all_tasks() <= before, pause_s=0.01)


async def test_a_viewer_that_never_connects_is_disconnected(source: FramePublisher) -> None:
    receiver = WebRtcReceiver()
    reasons: asyncio.Queue[ViewerCloseReason] = asyncio.Queue()
    await ViewerPeer.from_offer(
        await receiver.offer(),
        source=shared(source),
        on_controls=lambda text: [],
        on_closed=reasons.put_nowait,
        options=PeerOptions(timeouts=PeerTimeouts(connect_s=0.2)),
    )
    assert await reasons.get() is ViewerCloseReason.NEVER_CONNECTED
    await receiver.close()


async def test_a_killed_viewer_is_detected(source: FramePublisher) -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        str(Path(__file__).with_name("client.py")),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        env=environment,
    )
    assert process.stdin and process.stdout
    reasons: asyncio.Queue[ViewerCloseReason] = asyncio.Queue()
    video = shared(source)
    peer = await ViewerPeer.from_offer(
        json.loads(await process.stdout.readline()),
        source=video,
        on_controls=lambda text: [],
        on_closed=reasons.put_nowait,
        options=PeerOptions(timeouts=PeerTimeouts(silence_s=2.5)),
    )
    async with Player(source):
        process.stdin.write(json.dumps(peer.answer).encode() + b"\n")
        for _ in range(3):
            assert b"frame of 320x180" in await process.stdout.readline()
        process.send_signal(signal.SIGKILL)
        assert await reasons.get() is ViewerCloseReason.VANISHED
    await process.communicate()
    assert video.stats[peer.codec, Tier.FULL].viewers == 0


def count_open_files() -> int:
    """Of this process; 0 if unknown."""
    folder = Path("/proc/self/fd")
    return len(list(folder.iterdir())) if folder.is_dir() else 0


async def test_a_refused_offer_leaves_nothing_running(source: FramePublisher, monkeypatch: pytest.MonkeyPatch) -> None:
    receiver = WebRtcReceiver(codecs=[Codec.VP8])
    offer = await receiver.offer()
    before = asyncio.all_tasks()
    open_files = count_open_files()

    def broken(self: Any) -> Any:
        raise RuntimeError("broken on purpose")

    reasons: asyncio.Queue[ViewerCloseReason] = asyncio.Queue()
    monkeypatch.setattr(ViewerPeer, "_watch", broken)
    with pytest.raises(RuntimeError, match="on purpose"):
        await ViewerPeer.from_offer(
            offer, source=shared(source), on_controls=lambda text: [], on_closed=reasons.put_nowait
        )
    await until(lambda: asyncio.all_tasks() <= before, pause_s=0.01)
    assert reasons.empty()
    assert count_open_files() == open_files
    await receiver.close()


@pytest.mark.parametrize("offer", ["", "v=0\r\n", "v=0\r\nm=video"])
async def test_a_malformed_offer_is_refused(source: FramePublisher, offer: str) -> None:
    with pytest.raises(BadOfferError):
        await ViewerPeer.from_offer(offer, source=shared(source), on_controls=lambda text: [])


async def test_an_offer_that_only_aiortc_refuses_is_refused_too(source: FramePublisher) -> None:
    receiver = WebRtcReceiver(codecs=[Codec.H264])
    offer = (await receiver.offer()).replace("42001f", "4200ff").replace("42e01f", "4200ff")
    with pytest.raises(BadOfferError, match="cannot be used"):
        await ViewerPeer.from_offer(offer, source=shared(source), on_controls=lambda text: [])
    await receiver.close()


async def test_an_offer_without_local_addresses_is_an_error(
    source: FramePublisher, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def no_endpoint(*_: Any, **__: Any) -> Any:
        raise OSError("no free port")

    receiver = WebRtcReceiver()
    offer = await receiver.offer()
    monkeypatch.setattr(asyncio.get_running_loop(), "create_datagram_endpoint", no_endpoint)
    with pytest.raises(NoCandidatesError, match="try again later"):
        await ViewerPeer.from_offer(offer, source=shared(source), on_controls=lambda text: [])
    await receiver.close()


async def test_candidates_may_be_trickled(source: FramePublisher) -> None:
    receiver = WebRtcReceiver(codecs=[Codec.VP8])
    lines = (await receiver.offer()).splitlines()
    late = [line for line in lines if line.startswith(("a=candidate", "a=end-of"))]
    offer = "\r\n".join(line for line in lines if line not in late) + "\r\n"
    peer = await ViewerPeer.from_offer(offer, source=shared(source), on_controls=lambda text: [])
    # only the server can start the checks: the viewer does not know its address
    no_candidates = "\r\n".join(line for line in peer.answer.splitlines() if not line.startswith("a=candidate"))
    await receiver.set_answer(no_candidates + "\r\n")
    ufrag = next(line for line in lines if line.startswith("a=ice-ufrag"))
    with pytest.raises(BadCandidateError, match="restart"):
        await peer.add_candidate("a=ice-ufrag:other\r\n" + late[0])
    with pytest.raises(BadCandidateError):
        await peer.add_candidate("a=candidate:nonsense")
    await peer.add_candidate("\r\n".join([ufrag, "a=mid:0", *late]))
    async with Player(source):
        await receiver.next_frame()
    await receiver.close()
    await peer.close()


async def test_an_offer_without_file_descriptors_is_an_error(
    source: FramePublisher, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def no_file(*_: Any, **__: Any) -> Any:
        raise OSError(24, "Too many open files")

    receiver = WebRtcReceiver()
    offer = await receiver.offer()
    monkeypatch.setattr("aiortc.RTCPeerConnection.setLocalDescription", no_file)
    with pytest.raises(NoCandidatesError, match="Too many open files"):
        await ViewerPeer.from_offer(offer, source=shared(source), on_controls=lambda text: [])
    await receiver.close()


MALFORMED_STUN = b"\0\1\0\4\x21\x12\xa4\x42" + bytes(12) + b"\0\x24\0\0"  # a priority without a value
MALFORMED_REMB = RtcpPsfbPacket(
    fmt=RTCP_PSFB_APP, ssrc=1, media_ssrc=0, fci=b"REMB\xff\0\0\0"
)  # 255 numbers, none there


async def test_malformed_datagrams_and_reports_do_not_end_a_connection(source: FramePublisher, connect: Any) -> None:
    """An empty datagram has no first byte to demultiplex by, and anyone may send one."""
    stumbled: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: stumbled.append(context))
    async with Player(source):
        viewer = await connect(shared(source))
        await viewer.receiver.next_frame()
        places = re.findall(r"a=candidate:\S+ 1 udp \d+ (\S+) (\d+) typ host", viewer.peer.answer)
        for host, port in set(places):
            with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_DGRAM) as stranger:
                for datagram in (b"", MALFORMED_STUN, b"\x80", b"\x16", b"\xff" * 1500):
                    stranger.sendto(datagram, (host, int(port)))
        transport = viewer.receiver._receiver.transport
        await transport._send_rtp(bytes(MALFORMED_REMB))
        sent = viewer.peer.frames_sent
        await until(lambda: viewer.peer.frames_sent > sent + 10 or not viewer.reasons.empty(), 0.01)
        assert viewer.peer.is_connected and viewer.reasons.empty()
    assert stumbled == []


async def test_media_offered_by_a_viewer_is_inactive(source: FramePublisher) -> None:
    """It would be decoded, and its sound would heap up."""
    connection = RTCPeerConnection()
    connection.addTransceiver("video", direction="recvonly")
    for _ in range(3):
        connection.addTransceiver("audio", direction="sendrecv")
    await connection.setLocalDescription(await connection.createOffer())
    peer = await ViewerPeer.from_offer(
        connection.localDescription.sdp, source=shared(source), on_controls=lambda text: []
    )
    assert peer.answer.count("a=inactive") == 3 and "a=recvonly" not in peer.answer
    assert peer.answer.count("a=sendonly") == 1
    await connection.setRemoteDescription(RTCSessionDescription(peer.answer, "answer"))
    async with Player(source):
        await until(lambda: peer.frames_sent > 2, 0.01)
    await connection.close()
    await peer.close()
