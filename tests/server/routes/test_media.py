from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, cast

import av
import httpx
import numpy as np
import pytest
from fastapi import WebSocket
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from realtime_engine.core.clock import MONOTONIC
from realtime_engine.infra.mjpeg import parse_frame_id
from realtime_engine.infra.webcodecs import VideoPacket, parse_packet
from realtime_engine.server.routes.media import MjpegResponse, VideoConnection

from ..support import (
    HELD,
    OwnedSession,
    Served,
    color,
    frame_where,
    in_process,
    jpeg_color,
    message,
    over_http,
    paint_demo,
    until,
)


class Parts:
    """Reads pictures from a multipart body."""

    def __init__(self, response: httpx.Response) -> None:
        self.response = response
        self._bytes = response.aiter_raw()
        self._buffer = b""

    async def next(self) -> tuple[dict[str, str], bytes]:
        while (end := self._buffer.find(b"\r\n\r\n")) < 0:
            self._buffer += await anext(self._bytes)
        head = self._buffer[:end].decode().removeprefix("--frame\r\n")
        headers = dict(line.split(": ", 1) for line in head.split("\r\n"))
        start, length = end + 4, int(headers["Content-Length"])
        while len(self._buffer) < start + length + len(b"\r\n--frame\r\n"):
            self._buffer += await anext(self._bytes)
        picture = self._buffer[start : start + length]
        self._buffer = self._buffer[start + length + len(b"\r\n--frame\r\n") :]
        return headers, picture

    async def ended(self) -> None:
        async for _ in self._bytes:
            pass


@asynccontextmanager
async def watching(owned: OwnedSession) -> AsyncIterator[Parts]:
    async with owned.client.stream("GET", owned.url("mjpeg")) as response:
        assert response.status_code == 200, await response.aread()
        yield Parts(response)


async def test_a_stream_has_pictures_with_their_identity() -> None:
    async with over_http() as served:
        owned = await served.create(seed=90)
        async with watching(owned) as parts:
            assert parts.response.headers["content-type"] == "multipart/x-mixed-replace;boundary=frame"
            assert parts.response.headers["x-accel-buffering"] == "no"
            headers, picture = await parts.next()
            identity = parse_frame_id(headers["X-Frame"])
            assert (identity.session_id, identity.epoch, identity.action_id) == (owned.id, 1, None)
            assert abs(jpeg_color(picture)[2] - 90) < 6
            await owned.send(5, keys=["KeyW"])
            while abs(jpeg_color(picture)[1] - HELD) > 10:
                headers, picture = await parts.next()
            assert parse_frame_id(headers["X-Frame"]).action_id == "5"


async def test_no_older_picture_follows_the_response_to_a_reset() -> None:
    async with over_http() as served:
        owned = await served.create()
        async with watching(owned) as parts:
            await parts.next()
            assert (await owned.request("POST", "reset", json={})).status_code == 200
            session = served.session(owned)
            assert session.media.jpegs.latest is None or session.media.jpegs.latest.id.epoch == 2
            while parse_frame_id((await parts.next())[0]["X-Frame"]).epoch != 2:
                pass


async def test_a_stream_repeats_the_last_picture_of_a_finished_rollout_until_a_reset() -> None:
    async with over_http(paint_demo(max_chunks=3), heartbeat_s=0.02) as served:
        owned = await served.create()
        async with watching(owned) as parts:
            await until(lambda: served.session(owned).run_state.finished)
            while parse_frame_id((await parts.next())[0]["X-Frame"]).seq < 2:
                pass
            assert parse_frame_id((await parts.next())[0]["X-Frame"]).seq == 2, "repeated"
            await owned.request("POST", "reset", json={})
            while parse_frame_id((await parts.next())[0]["X-Frame"]).epoch < 2:
                pass


async def test_a_stream_ends_with_its_session() -> None:
    async with over_http() as served:
        owned = await served.create()
        async with watching(owned) as parts:
            await parts.next()
            await owned.request("DELETE", "self")
            await parts.ended()


async def test_a_stream_ends_with_the_server() -> None:
    async with over_http() as served, watching(await served.create()) as parts:
        await parts.next()
        assert served.server is not None
        served.server.should_exit = True
        await parts.ended()


async def test_a_viewer_that_reads_nothing_is_disconnected() -> None:
    left = asyncio.Event()

    async def parts() -> AsyncGenerator[bytes, None]:
        try:
            while True:
                yield b"part"
        finally:
            left.set()

    async def never(message: Any = None) -> Any:
        if message is None or message["type"] == "http.response.body":
            await asyncio.Event().wait()

    response = MjpegResponse(parts(), timeout_s=0.05)
    scope = {"type": "http", "asgi": {"spec_version": "2.3"}}
    await asyncio.wait_for(response(scope, never, never), 10)
    assert left.is_set()


async def test_opening_and_closing_streams_leaks_nothing() -> None:
    async with over_http() as served:
        owned = await served.create()
        session = served.session(owned)
        async with watching(owned) as parts:
            await parts.next()
        await _until_unwatched(served, owned)
        before = len(asyncio.all_tasks())
        for cycle in range(100):
            async with watching(owned) as parts:
                if cycle % 2:
                    await parts.next()
        await _until_unwatched(served, owned)
        await until(lambda: len(asyncio.all_tasks()) <= before)
        assert session.media.frames.statistics().viewers == 0


async def _until_unwatched(served: Served, owned: OwnedSession) -> None:
    session = served.session(owned)
    await until(lambda: session.media.watching == 0 and session.media.frames.viewers == 0)


async def test_the_newest_frame_is_a_jpeg_with_its_identity() -> None:
    async with in_process(viewer_grace_s=60) as served:
        owned = await served.create(seed=150)
        session = served.session(owned)
        await frame_where(session, lambda color: True)
        answer = await owned.request("GET", "frame")
        assert answer.status_code == 200 and answer.headers["content-type"] == "image/jpeg"
        assert parse_frame_id(answer.headers["x-frame"]).session_id == owned.id
        assert abs(jpeg_color(answer.content)[2] - 150) < 6


async def test_before_the_first_frame_there_is_none() -> None:
    async with in_process() as served:
        owned = await served.create()
        session = served.session(owned)
        await owned.request("PATCH", "self", json={"active": False})
        await owned.request("POST", "reset", json={})
        assert session.media.frames.latest is None
        missing = await owned.request("GET", "frame")
        assert (missing.status_code, missing.json()["type"].rpartition(":")[2]) == (404, "no-frame")


class Watcher:
    """Acknowledges and decodes the packets of one connection."""

    def __init__(self, socket: ClientConnection) -> None:
        self.socket = socket
        self._decoder = av.CodecContext.create("h264", "r")
        self._decoder.thread_count = 1

    async def next(self) -> VideoPacket:
        message = await self.socket.recv()
        assert isinstance(message, bytes)
        packet = parse_packet(message)
        await self.send(type="ack", number=packet.number)
        return packet

    async def send(self, **given: Any) -> None:
        await self.socket.send(json.dumps({"v": 1, **given}))

    def decode(self, packet: VideoPacket) -> np.ndarray:
        (frame,) = self._decoder.decode(av.Packet(packet.data))
        return frame.to_ndarray(format="rgb24")


@asynccontextmanager
async def video_watching(owned: OwnedSession, **given: Any) -> AsyncIterator[Watcher]:
    async with connect(owned.url("video", "ws"), **given) as socket:
        yield Watcher(socket)


async def test_packets_carry_the_identity_of_their_frame() -> None:
    async with over_http() as served:
        owned = await served.create(seed=90)
        async with video_watching(owned) as watcher:
            packet = await watcher.next()
            assert (packet.number, packet.keyframe, packet.epoch, packet.action_seq) == (0, True, 1, None)
            assert abs(color(watcher.decode(packet))[2] - 90) < 12
            await owned.send(5, keys=["KeyW"])
            numbers, times = [0], [packet.timestamp_us]
            while abs(color(watcher.decode(packet))[1] - HELD) > 12:
                packet = await watcher.next()
                numbers.append(packet.number)
                times.append(packet.timestamp_us)
            assert packet.action_seq == 5
            assert numbers == list(range(len(numbers))) and times == sorted(set(times))


async def test_a_later_viewer_starts_with_a_keyframe_of_the_same_encoder() -> None:
    async with over_http() as served:
        owned = await served.create()
        session = served.session(owned)
        async with video_watching(owned) as one, video_watching(owned) as other:
            first, second = await one.next(), await other.next()
            assert first.keyframe and second.keyframe
            assert color(other.decode(second))[2] < 20
            for _ in range(8):
                while second.seq <= first.seq:
                    second = await other.next()
                while first.seq < second.seq:
                    first = await one.next()
                assert first.seq > second.seq or first.data == second.data
            assert session.media.watching == session.media.feeds.connected == 2
            metrics = (await served.client.get("/metrics")).text
            assert 'realtime_engine_viewers{transport="webcodecs"} 2.0' in metrics
        await until(lambda: session.media.watching == 0)


async def test_a_viewer_that_cannot_decode_gets_a_keyframe() -> None:
    async with over_http() as served:
        owned = await served.create()
        async with video_watching(owned) as watcher:
            await watcher.next()
            assert not (await watcher.next()).keyframe
            await watcher.send(type="keyframe")
            while not (await watcher.next()).keyframe:
                pass


async def test_packets_continue_in_the_new_epoch_after_a_reset() -> None:
    async with over_http() as served:
        owned = await served.create(seed=90)
        async with video_watching(owned) as watcher:
            watcher.decode(packet := await watcher.next())
            await owned.request("POST", "reset", json={"context": {"seed": 10}})
            while packet.epoch == 1:  # packets in flight
                pixels = watcher.decode(packet := await watcher.next())
            assert abs(color(pixels)[2] - 10) < 12
            assert [(await watcher.next()).epoch for _ in range(5)] == [2] * 5


async def test_the_video_socket_closes_with_its_session() -> None:
    async with over_http() as served:
        owned = await served.create()
        async with video_watching(owned) as watcher:
            await watcher.next()
            await owned.request("DELETE", "self")
            with pytest.raises(ConnectionClosed) as closed:
                while True:
                    await watcher.next()
            assert closed.value.rcvd is not None and closed.value.rcvd.code == 1001


async def test_the_video_socket_carries_jpegs_on_request() -> None:
    async with over_http() as served:
        owned = await served.create(seed=90)
        session = served.session(owned)
        async with connect(owned.url("video", "ws") + "&codec=jpeg") as socket:
            watcher = Watcher(socket)
            packet = await watcher.next()
            assert (packet.number, packet.keyframe, packet.epoch, packet.action_seq) == (0, True, 1, None)
            assert abs(jpeg_color(packet.data)[2] - 90) < 6
            assert session.media.watching == session.media.jpegs.viewers == 1
            await owned.send(5, keys=["KeyW"])
            while packet.action_seq != 5:
                packet = await watcher.next()
            assert abs(jpeg_color(packet.data)[1] - HELD) < 6
            await owned.request("POST", "reset", json={"context": {"seed": 10}})
            while packet.epoch == 1:  # packets in flight
                packet = await watcher.next()
            assert abs(jpeg_color(packet.data)[2] - 10) < 6
            await owned.request("DELETE", "self")
            with pytest.raises(ConnectionClosed) as closed:
                while True:
                    await watcher.next()
            assert closed.value.rcvd is not None and closed.value.rcvd.code == 1001
        await until(lambda: session.media.watching == 0)


async def test_an_unknown_codec_is_refused() -> None:
    async with over_http() as served:
        owned = await served.create()
        with pytest.raises(InvalidStatus):
            async with connect(owned.url("video", "ws") + "&codec=av1"):
                pass


async def test_an_invalid_message_closes_the_connection() -> None:
    async with over_http() as served:
        owned = await served.create()
        for text in ("{", b"\1", '{"v": 1, "type": "controls"}'):
            async with video_watching(owned) as watcher:
                await watcher.socket.send(text)
                with pytest.raises(ConnectionClosed) as closed:
                    while True:
                        await watcher.socket.recv()
                assert closed.value.rcvd is not None and closed.value.rcvd.code == 1008
        await until(lambda: served.session(owned).media.watching == 0)


async def test_unauthorized_handshakes_are_refused() -> None:
    async with over_http() as served:
        owned = await served.create()
        url = owned.url("video", "ws")
        for address, headers, status in (
            (url + "x", {}, 401),
            (url.partition("?")[0], {}, 401),
            (url.replace(owned.id, "unknown"), {}, 404),
        ):
            with pytest.raises(InvalidStatus) as refused:
                async with connect(address, additional_headers=headers):
                    pass
            assert refused.value.response.status_code == status
        assert served.session(owned).media.watching == 0


async def test_a_slow_reader_blocks_no_other_and_continues_with_a_keyframe() -> None:
    async with over_http() as served:
        owned = await served.create()
        async with video_watching(owned) as slow, video_watching(owned) as quick:
            await slow.next()
            joined = await quick.next()
            while (first := await slow.next()).seq < joined.seq:
                pass
            seqs = [(await quick.next()).seq for _ in range(60)]
            assert seqs == sorted(set(seqs)), "the other reader is not affected"
            sent = [await slow.next()]
            while not sent[-1].keyframe:
                sent.append(await slow.next())
            assert [packet.number for packet in sent] == list(range(first.number + 1, sent[-1].number + 1))
            assert len(sent) < 30, "a bounded number of packets was sent ahead"
            assert sent[-1].seq >= seqs[-1], "no older packet follows"
            assert color(slow.decode(sent[-1]))[2] < 20


class Stuck:
    """A WebSocket whose client sends nothing and reads nothing."""

    def __init__(self) -> None:
        self.code: int | None = None
        self.sends = 0

    async def receive(self) -> dict[str, Any]:
        return await asyncio.get_running_loop().create_future()

    async def send_bytes(self, data: bytes) -> None:
        self.sends += 1
        await asyncio.get_running_loop().create_future()

    async def close(self, code: int) -> None:
        self.code = code


async def test_a_client_that_reads_nothing_is_disconnected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("realtime_engine.infra.webcodecs.feed.STUCK_NS", 50_000_000)
    async with in_process() as served:
        session = served.session(await served.create())
        socket = Stuck()
        with session.media.feeds.open(session.access.owner) as feed:
            await VideoConnection(cast(WebSocket, socket), session, feed, asyncio.Event()).run()
        assert (socket.code, socket.sends) == (1013, 1)
        assert session.media.watching == 0


async def test_opening_and_closing_video_sockets_leaks_nothing() -> None:
    async with over_http() as served:
        owned = await served.create()
        session = served.session(owned)
        async with video_watching(owned) as watcher:
            await watcher.next()
        await until(lambda: session.media.watching == 0)
        before = len(asyncio.all_tasks())
        for cycle in range(30):
            async with video_watching(owned) as watcher:
                if cycle % 3:
                    await watcher.next()
                if cycle % 2:
                    watcher.socket.transport.abort()
        await until(lambda: session.media.watching == 0)
        await until(lambda: len(asyncio.all_tasks()) <= before)
        assert sum(stats.viewers for _, stats in session.media.tiers()) == 0


async def test_presented_frames_of_a_named_viewer_are_recorded() -> None:
    async with over_http() as served:
        owned = await served.create()
        session = served.session(owned)
        async with connect(owned.url("video", "ws") + "&viewer=desk") as socket:
            packet = await Watcher(socket).next()
            now_ms = MONOTONIC.now_ns() / 1e6
            frame = {"epoch": packet.epoch, "seq": packet.seq, "index": packet.index, "presented": now_ms}
            clock = {"offset": 0.0, "uncertainty": 1.0}
            session.receive(message("presented", seq=1, viewer="desk", clock=clock, frames=[frame]))
            assert session.media.latency.transport_of("desk") == "webcodecs"
            assert [record.is_presented for record in session.media.latency.records(0)][:1] == [True]
        await until(lambda: session.media.latency.transport_of("desk") is None)
