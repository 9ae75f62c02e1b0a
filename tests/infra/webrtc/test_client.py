from __future__ import annotations

import pytest

from realtime_engine.infra.encoding import Codec
from realtime_engine.infra.publisher import FramePublisher
from realtime_engine.infra.webrtc import BadAnswerError, PeerClosedError, ViewerPeer, WebRtcReceiver

from .support import Player, shared


async def test_the_offer_has_video_and_a_data_channel_only() -> None:
    receiver = WebRtcReceiver(codecs=[Codec.VP8])
    offer = await receiver.offer()
    assert offer.count("m=") == 2 and "m=video" in offer and "m=application" in offer
    assert "a=recvonly" in offer and "a=candidate:" in offer
    assert "VP8" in offer and "H264" not in offer
    await receiver.close()
    await receiver.close()


@pytest.mark.parametrize("answer", ["", "<html>", "v=0\r\no=- 1 1 IN IP4 0.0.0.0\r\ns=-\r\nt=0 0\r\n"])
async def test_a_bad_answer_is_refused(answer: str) -> None:
    receiver = WebRtcReceiver()
    await receiver.offer()
    with pytest.raises(BadAnswerError, match="cannot be used"):
        await receiver.set_answer(answer)
    await receiver.close()


async def test_closing_a_receiver_ends_its_waits() -> None:
    receiver = WebRtcReceiver()
    with pytest.raises(PeerClosedError, match="not open"):
        receiver.send("too early")
    await receiver.close()
    for wait in (receiver.next_frame, receiver.next_message, receiver.channel_open):
        with pytest.raises(PeerClosedError, match="closed"):
            await wait()
    await receiver.ended()


async def test_the_oldest_unread_frames_are_dropped() -> None:
    source = FramePublisher()
    receiver = WebRtcReceiver(unread=2)
    peer = await ViewerPeer.from_offer(await receiver.offer(), source=shared(source), on_controls=lambda text: [])
    await receiver.set_answer(peer.answer)
    async with Player(source):
        await receiver.next_frame()
        first = await receiver.next_frame()
        while peer.frames_sent < 20:
            await receiver._until(lambda: len(receiver._frames) == 2)
            receiver._frames.clear()
        second = await receiver.next_frame()
    assert first.rtp is not None and second.rtp is not None
    assert second.received_ns > first.received_ns
    assert (second.rtp - first.rtp) % 2**32 > 10 * 90_000 * 0.02
    await receiver.close()
    await peer.close()
