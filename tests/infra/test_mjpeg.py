from __future__ import annotations

import asyncio
import re
import socket
import threading
import time
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing

import pytest

from realtime_engine.core.messages import Stamps
from realtime_engine.infra.frame import FrameId
from realtime_engine.infra.jpeg import JpegEncoder, JpegFrame, JpegPublisher
from realtime_engine.infra.mjpeg import (
    BOUNDARY,
    HEADERS,
    MjpegStream,
    encode_part,
    format_frame_id,
    listening_socket,
    parse_frame_id,
)
from realtime_engine.infra.publisher import FramePublisher

from .pictures import make_frame


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(1) as executor:
        yield executor


@pytest.fixture
async def frames() -> AsyncIterator[FramePublisher]:
    publisher = FramePublisher()
    yield publisher
    publisher.close()


def stream_of(frames: FramePublisher, pool: ThreadPoolExecutor, idle_repeat_s: float = 60.0) -> MjpegStream:
    return MjpegStream(JpegPublisher(frames, JpegEncoder(), pool), idle_repeat_s)


def seq_of(part: bytes) -> int:
    found = re.search(rb";seq=(\d+);", part)
    assert found is not None
    return int(found[1])


async def soon(parts: AsyncIterator[bytes]) -> bytes:
    return await asyncio.wait_for(anext(parts), 10)


def test_headers_suit_safari_and_proxies() -> None:
    assert HEADERS["Content-Type"] == "multipart/x-mixed-replace;boundary=frame"
    assert HEADERS["X-Accel-Buffering"] == "no"
    assert "no-cache" in HEADERS["Cache-Control"]


def test_a_part_is_headers_picture_and_the_next_boundary() -> None:
    emitted = time.monotonic_ns()
    picture = JpegFrame(b"\xff\xd8jpeg\xff\xd9", FrameId("s", 2, 7, 1, "a9", Stamps(emitted=emitted)))
    before = time.time()
    head, rest = encode_part(picture).split(b"\r\n\r\n", 1)
    headers = dict(line.split(": ", 1) for line in head.decode().split("\r\n"))
    assert rest == picture.data + b"\r\n--" + BOUNDARY.encode() + b"\r\n"
    assert headers["Content-Type"] == "image/jpeg"
    assert headers["Content-Length"] == str(len(picture.data))
    assert headers["X-Frame"] == "session=s;epoch=2;seq=7;index=1;action=a9"
    assert float(headers["X-Timestamp"]) == pytest.approx(before, abs=30)


def test_a_frame_without_stamps_has_no_timestamp() -> None:
    assert b"X-Timestamp" not in encode_part(JpegFrame(b"x", FrameId("s", 1, 0, 0)))


@pytest.mark.parametrize("action", [None, "a;b=c", "Zoë\r\nX-Evil: 1", 12])
@pytest.mark.parametrize("session_id", ["plain", "a=b;c", "new\r\nline", "ünï"])
def test_an_identity_survives_the_header(session_id: str, action: object) -> None:
    text = format_frame_id(FrameId(session_id, 3, 4, 5, action))
    assert text.isascii() and text.isprintable()
    expected = None if action is None else str(action)
    assert parse_frame_id(text) == FrameId(session_id, 3, 4, 5, expected)


@pytest.mark.parametrize("text", ["", "session=s", "session=s;epoch=x;seq=0;index=0;action=", "hello world"])
def test_another_text_is_refused_as_identity(text: str) -> None:
    with pytest.raises(ValueError, match="not the identity of a frame"):
        parse_frame_id(text)


async def test_a_body_opens_with_a_boundary_and_closes_each_part_with_one(
    frames: FramePublisher, pool: ThreadPoolExecutor
) -> None:
    async with aclosing(stream_of(frames, pool).parts()) as parts:
        frames.publish(make_frame(0))
        first = await soon(parts)
        frames.publish(make_frame(1))
        second = await soon(parts)
    assert first.startswith(b"--frame\r\nContent-Type")
    assert second.startswith(b"Content-Type")
    assert first.endswith(b"\r\n--frame\r\n") and second.endswith(b"\r\n--frame\r\n")
    assert (seq_of(first), seq_of(second)) == (0, 1)


async def test_a_late_viewer_gets_the_newest_picture(frames: FramePublisher, pool: ThreadPoolExecutor) -> None:
    stream = stream_of(frames, pool)
    async with aclosing(stream.parts()) as slow, aclosing(stream.parts()) as quick:
        frames.publish(make_frame(0))
        await asyncio.gather(soon(slow), soon(quick))
        for seq in range(1, 6):
            frames.publish(make_frame(seq))
            assert seq_of(await soon(quick)) == seq
        assert seq_of(await soon(slow)) == 5


async def test_viewers_share_the_bytes_of_a_part(frames: FramePublisher, pool: ThreadPoolExecutor) -> None:
    stream = stream_of(frames, pool)
    async with aclosing(stream.parts()) as one, aclosing(stream.parts()) as two:
        for seq in range(2):
            frames.publish(make_frame(seq))
            got = await asyncio.gather(soon(one), soon(two))
        assert got[0] is got[1]


async def test_the_last_picture_is_repeated_while_there_is_no_new_one(
    frames: FramePublisher, pool: ThreadPoolExecutor
) -> None:
    async with aclosing(stream_of(frames, pool, idle_repeat_s=0.005).parts()) as parts:
        frames.publish(make_frame(4))
        assert [seq_of(await soon(parts)) for _ in range(3)] == [4, 4, 4]
        frames.publish(make_frame(5))
        while seq_of(await soon(parts)) == 4:
            pass


async def test_no_picture_of_an_ended_epoch_is_repeated(frames: FramePublisher, pool: ThreadPoolExecutor) -> None:
    async with aclosing(stream_of(frames, pool, idle_repeat_s=0.005).parts()) as parts:
        frames.publish(make_frame(4, epoch=1))
        await soon(parts)
        frames.begin_epoch(2)
        waiting = asyncio.ensure_future(anext(parts))
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(asyncio.shield(waiting), 0.05)
        frames.publish(make_frame(5, epoch=2))
        assert seq_of(await asyncio.wait_for(waiting, 10)) == 5


async def test_a_body_ends_with_its_session(frames: FramePublisher, pool: ThreadPoolExecutor) -> None:
    stream = stream_of(frames, pool)
    parts = stream.parts()
    frames.publish(make_frame(0))
    await soon(parts)
    waiting = asyncio.ensure_future(anext(parts))
    await asyncio.sleep(0)
    frames.close()
    with pytest.raises(StopAsyncIteration):
        await asyncio.wait_for(waiting, 10)
    assert [part async for part in stream.parts()] == []


async def test_a_viewer_that_disconnects_while_waiting_is_removed(
    frames: FramePublisher, pool: ThreadPoolExecutor
) -> None:
    jpegs = JpegPublisher(frames, JpegEncoder(), pool)
    parts = MjpegStream(jpegs).parts()
    waiting = asyncio.ensure_future(anext(parts))
    await asyncio.sleep(0)
    assert jpegs.viewers == 1
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert jpegs.viewers == 0


def test_the_repeat_interval_is_validated() -> None:
    with pytest.raises(ValueError, match="idle_repeat_s"):
        MjpegStream(None, 0)  # type: ignore[arg-type]


# -- the socket


def accept_one(listener: socket.socket) -> tuple[socket.socket, socket.socket]:
    listener.setblocking(True)
    listener.settimeout(10)
    client = socket.create_connection(listener.getsockname()[:2], timeout=10)
    return client, listener.accept()[0]


@pytest.mark.skipif(not hasattr(socket, "TCP_NOTSENT_LOWAT"), reason="TCP_NOTSENT_LOWAT is not known here")
@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_connections_inherit_the_limits(host: str) -> None:
    with listening_socket(host, 0, send_buffer_bytes=50_000, unsent_bytes=9_000) as listener:
        client, server = accept_one(listener)
        with client, server:
            assert server.getsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT) == 9_000
            assert server.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF) in (50_000, 100_000)


def test_little_is_buffered_for_a_client_that_does_not_read() -> None:
    with listening_socket("127.0.0.1", 0) as listener:
        client, server = accept_one(listener)
        with client, server:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8192)
            server.setblocking(False)
            taken, stop = 0, threading.Event()
            while not stop.is_set():
                try:
                    taken += server.send(bytes(65536))
                except BlockingIOError:
                    stop.set()
            assert taken < 400_000


def test_a_taken_port_is_named() -> None:
    with listening_socket("127.0.0.1", 0) as listener:
        port = listener.getsockname()[1]
        with pytest.raises(OSError, match=f"127.0.0.1:{port}.*choose another port"):
            listening_socket("127.0.0.1", port)


def test_an_unknown_host_is_named() -> None:
    with pytest.raises(OSError, match="no-such-host.invalid"):
        listening_socket("no-such-host.invalid", 0)


@pytest.mark.skipif(not hasattr(socket, "TCP_USER_TIMEOUT"), reason="this platform cannot bound it")
def test_connections_of_vanished_clients_time_out() -> None:
    with listening_socket("127.0.0.1", 0) as listener, socket.create_connection(listener.getsockname()):
        listener.setblocking(True)
        accepted, _ = listener.accept()
        with accepted:
            assert accepted.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == 20_000
