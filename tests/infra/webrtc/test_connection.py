from __future__ import annotations

import asyncio

import pytest
from aiortc import RTCConfiguration, RTCPeerConnection

from realtime_engine.infra.webrtc import ViewerPeer, WebRtcReceiver, connection
from realtime_engine.infra.webrtc.connection import Connection

from .support import FakeSource, shared


class Slow(Connection):
    """One that takes a step of connecting after it was closed."""

    went_on = False

    async def _RTCPeerConnection__connect(self) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            self.went_on = self.signalingState == "closed"


async def test_what_connects_ends_before_the_close() -> None:
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
    peer = await ViewerPeer.accept(offer, source=shared(FakeSource()), on_controls=lambda text: [])
    accepting = asyncio.ensure_future(receiver.accept(peer.answer))
    for _ in range(turns):
        await asyncio.sleep(0.001)
    await peer.close()
    await accepting
    await receiver.close()
    left = asyncio.all_tasks() - before
    if left:
        await asyncio.wait(left, timeout=1)
    assert not asyncio.all_tasks() - before and not stumbled


async def test_a_cancellation_that_gets_lost_is_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    lost, cancelled = asyncio.Event(), asyncio.Event()

    async def connect(self: RTCPeerConnection) -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            lost.set()  # as on the way through aioice, which goes on to wait for the peer
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    monkeypatch.setattr(RTCPeerConnection, "_RTCPeerConnection__connect", connect)
    connection = Connection(RTCConfiguration(iceServers=[]))
    connecting = asyncio.ensure_future(connection._RTCPeerConnection__connect())  # type: ignore[attr-defined]
    await asyncio.sleep(0)
    await connection.close()
    assert lost.is_set() and cancelled.is_set() and connecting.cancelled()
