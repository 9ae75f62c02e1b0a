from __future__ import annotations

import asyncio

import pytest
from aiortc import RTCConfiguration, RTCPeerConnection

from realtime_engine.infra.publisher import FramePublisher
from realtime_engine.infra.webrtc import ViewerPeer, WebRtcReceiver
from realtime_engine.infra.webrtc import ice as connection
from realtime_engine.infra.webrtc.ice import PeerConnection
from realtime_engine.infra.webrtc.peer import Liveness, PeerTimeouts

from .support import shared


class Slow(PeerConnection):
    """A connection that continues to connect after it was closed."""

    went_on = False

    async def connect(self) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            self.went_on = self.signalingState == "closed"


setattr(Slow, connection._CONNECT, Slow.connect)


async def test_a_close_cancels_the_connect_task_first() -> None:
    slow = Slow(RTCConfiguration(iceServers=[]))
    connecting = asyncio.ensure_future(getattr(slow, connection._CONNECT)())
    await asyncio.sleep(0)
    await slow.close()
    assert connecting.cancelled() and not slow.went_on
    await slow.close()


@pytest.mark.parametrize("turns", [0, 1, 5, 20, 60, 150])
async def test_a_close_at_any_moment_leaves_no_task_behind(turns: int) -> None:
    before = asyncio.all_tasks()
    stumbled: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: stumbled.append(context))
    receiver = WebRtcReceiver()
    offer = await receiver.offer()
    peer = await ViewerPeer.from_offer(offer, source=shared(FramePublisher()), on_controls=lambda text: [])
    accepting = asyncio.ensure_future(receiver.set_answer(peer.answer))
    for _ in range(turns):
        await asyncio.sleep(0.001)
    await peer.close()
    await accepting
    await receiver.close()
    left = asyncio.all_tasks() - before
    if left:
        await asyncio.wait(left, timeout=1)
    assert not asyncio.all_tasks() - before and not stumbled


async def test_a_lost_cancellation_is_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    lost, cancelled = asyncio.Event(), asyncio.Event()

    async def connect(self: RTCPeerConnection) -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            lost.set()  # like aioice, which continues to wait for the peer
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    monkeypatch.setattr(RTCPeerConnection, "_RTCPeerConnection__connect", connect)
    connection = PeerConnection(RTCConfiguration(iceServers=[]))
    connecting = asyncio.ensure_future(connection._RTCPeerConnection__connect())  # type: ignore[attr-defined]
    await asyncio.sleep(0)
    await connection.close()
    assert lost.is_set() and cancelled.is_set() and connecting.cancelled()


MS = 1_000_000
TIMEOUT = PeerTimeouts(connect_s=10, silence_s=4)


def first_vanished_ms(liveness: Liveness, until_ms: int, sent: dict[int, int], received: dict[int, int]) -> int | None:
    """Look every 100 ms; ``sent`` and ``received`` give the counters from a moment on."""
    for now in range(0, until_ms + 1, 100):
        counts = [next((v for at, v in sorted(c.items(), reverse=True) if at <= now), 0) for c in (sent, received)]
        if liveness.has_vanished(now * MS, connected=True, sent=counts[0], received=counts[1]):
            return now
    return None


def rising(until_ms: int, from_ms: int = 0) -> dict[int, int]:
    return {at: at // 100 + 1 for at in range(from_ms, until_ms, 100)}


def test_a_responding_viewer_is_kept() -> None:
    answers = {at: at for at in range(1000, 60_000, 1500)}
    assert first_vanished_ms(Liveness(TIMEOUT, 0), 60_000, rising(60_000), answers) is None


def test_a_viewer_that_stops_responding_is_disconnected_in_time() -> None:
    assert first_vanished_ms(Liveness(TIMEOUT, 0), 60_000, rising(60_000), {1000: 1, 2000: 2}) == 6200


def test_a_viewer_that_is_sent_nothing_owes_no_response() -> None:
    assert first_vanished_ms(Liveness(TIMEOUT, 0), 600_000, {0: 1, 100: 2}, {200: 1}) is None


def test_silence_counts_from_the_first_frame_after_a_pause() -> None:
    sent = {0: 1} | rising(60_000, from_ms=30_000)
    assert first_vanished_ms(Liveness(TIMEOUT, 0), 60_000, sent, {200: 1}) == 34_100


def test_a_viewer_that_never_connects_is_disconnected() -> None:
    liveness = Liveness(TIMEOUT, 5000 * MS)
    assert not liveness.has_vanished(15_000 * MS, connected=False, sent=0, received=0)
    assert liveness.has_vanished(15_001 * MS, connected=False, sent=0, received=0)


def test_a_vanished_viewer_is_detected_in_time() -> None:
    assert PeerTimeouts().silence_s > 5 and PeerTimeouts().silence_s + 2 * PeerTimeouts().poll_s <= 7.5
