from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

import httpx
import numpy as np
import pytest

from realtime_engine.infra.mjpeg import parse_frame_id
from realtime_engine.server.routes.pictures import MjpegResponse

from ..support import HELD, Place, Served, frame_where, in_process, jpeg_colour, over_http, until


class Parts:
    """Reads pictures out of a multipart body."""

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
async def watching(place: Place) -> AsyncIterator[Parts]:
    async with place.client.stream("GET", place.url("mjpeg")) as response:
        assert response.status_code == 200, await response.aread()
        yield Parts(response)


async def test_a_stream_brings_pictures_that_tell_where_they_come_from() -> None:
    async with over_http() as served:
        place = await served.take(seed=90)
        async with watching(place) as parts:
            assert parts.response.headers["content-type"] == "multipart/x-mixed-replace;boundary=frame"
            assert parts.response.headers["x-accel-buffering"] == "no"
            headers, picture = await parts.next()
            identity = parse_frame_id(headers["X-Frame"])
            assert (identity.session_id, identity.epoch, identity.action_id) == (place.id, 1, None)
            assert abs(jpeg_colour(picture)[2] - 90) < 6
            await place.send(5, keys=["KeyW"])
            while abs(jpeg_colour(picture)[1] - HELD) > 10:
                headers, picture = await parts.next()
            assert parse_frame_id(headers["X-Frame"]).action_id == "5"


async def test_no_picture_of_before_a_reset_follows_its_answer() -> None:
    async with over_http() as served:
        place = await served.take()
        async with watching(place) as parts:
            await parts.next()
            assert (await place.request("POST", "reset", json={})).status_code == 200
            session = served.session(place)
            assert session.jpegs.latest is None or session.jpegs.latest.id.epoch == 2
            while parse_frame_id((await parts.next())[0]["X-Frame"]).epoch != 2:
                pass


async def test_a_stream_ends_with_its_session() -> None:
    async with over_http() as served:
        place = await served.take()
        async with watching(place) as parts:
            await parts.next()
            await place.request("DELETE", "self")
            await parts.ended()


async def test_a_stream_ends_with_the_server() -> None:
    async with over_http() as served:
        async with watching(await served.take()) as parts:
            await parts.next()
            assert served.server is not None
            served.server.should_exit = True
            await parts.ended()


async def test_a_viewer_that_takes_nothing_is_given_up() -> None:
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

    response = MjpegResponse(parts(), patience_s=0.05)
    scope = {"type": "http", "asgi": {"spec_version": "2.3"}}
    await asyncio.wait_for(response(scope, never, never), 10)
    assert left.is_set()


async def test_viewers_that_come_and_go_leave_nothing_behind() -> None:
    async with over_http() as served:
        place = await served.take()
        session = served.session(place)
        async with watching(place) as parts:
            await parts.next()
        await _nobody_is_left(served, place)
        before = len(asyncio.all_tasks())
        for cycle in range(100):
            async with watching(place) as parts:
                if cycle % 2:
                    await parts.next()
        await _nobody_is_left(served, place)
        await until(lambda: len(asyncio.all_tasks()) <= before)
        assert session.publisher.statistics().viewers == 0


async def _nobody_is_left(served: Served, place: Place) -> None:
    session = served.session(place)
    await until(lambda: session.watching == 0 and session.publisher.viewers == 0)


async def test_the_newest_frame_is_encoded_once() -> None:
    async with in_process(viewer_grace_s=60) as served:
        place = await served.take(seed=150)
        none_yet = await place.request("GET", "frame")
        session = served.session(place)
        await frame_where(session, lambda colour: True)
        await place.request("PATCH", "self", json={"active": False})
        first = await place.request("GET", "frame")
        second = await place.request("GET", "frame")
        assert none_yet.status_code in (200, 404)
        assert first.headers["content-type"] == "image/jpeg"
        assert parse_frame_id(first.headers["x-frame"]).session_id == place.id
        assert abs(jpeg_colour(first.content)[2] - 150) < 6
        assert first.content == second.content
        assert await session.picture() is await session.picture()


async def test_a_picture_whose_epoch_ends_during_its_encode_is_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    async with in_process(viewer_grace_s=60) as served:
        place = await served.take()
        session = served.session(place)
        await frame_where(session, lambda colour: True)
        await place.request("PATCH", "self", json={"active": False})

        def encode(pixels: np.ndarray) -> bytes:
            session.publisher.begin_epoch(session.epoch + 1)
            return b"old"

        monkeypatch.setattr(session, "_jpeg", SimpleNamespace(encode=encode))
        assert await session.picture() is None


async def test_before_the_first_frame_there_is_none() -> None:
    async with in_process() as served:
        place = await served.take()
        session = served.session(place)
        await place.request("PATCH", "self", json={"active": False})
        await place.request("POST", "reset", json={})
        assert session.publisher.latest is None
        missing = await place.request("GET", "frame")
        assert (missing.status_code, missing.json()["type"].rpartition(":")[2]) == (404, "no-frame")
