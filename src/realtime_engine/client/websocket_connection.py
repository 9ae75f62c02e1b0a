"""A connection with controls over a WebSocket, and optionally frames over Motion JPEG."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Coroutine, Iterator, Mapping
from functools import partial
from typing import Any, Literal

import httpx
import numpy as np
import simplejpeg
from numpy.typing import NDArray
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import WebSocketException

from ..infra.mjpeg import parse_frame_id
from .connection import UNREAD_FRAMES, ClientFrame, ConnectionLost
from .errors import TransportError
from .rest import Rest, SessionGrant, bearer, refusal

_HEAD_END = b"\r\n\r\n"
_MAX_HEAD_BYTES = 16 * 1024


class MultipartReader:
    """An incremental parser of a multipart stream."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> Iterator[tuple[Mapping[str, str], bytes]]:
        """Parse ``data`` and yield the completed parts: headers with lower-case names, and body.

        Raises:
            ValueError: a part has no ``Content-Length``, or its headers are too long.
        """
        self._buffer += data
        while (part := self._next()) is not None:
            yield part

    def _next(self) -> tuple[Mapping[str, str], bytes] | None:
        end = self._buffer.find(_HEAD_END)
        if end < 0:
            if len(self._buffer) > _MAX_HEAD_BYTES:
                raise ValueError(f"the headers of a part exceed {_MAX_HEAD_BYTES} bytes: not a multipart stream")
            return None
        headers = _parse_headers(self._buffer[:end].decode("latin-1"))
        try:
            length = int(headers["content-length"])
        except (KeyError, ValueError) as error:
            raise ValueError(f"a part has no valid Content-Length: {headers!r}") from error
        begin = end + len(_HEAD_END)
        if len(self._buffer) < begin + length:
            return None
        body = bytes(self._buffer[begin : begin + length])
        del self._buffer[: begin + length]
        return headers, body


def _parse_headers(head: str) -> dict[str, str]:
    """Parse headers. The delimiter line before them has no colon and is skipped."""
    pairs = (line.partition(":") for line in head.split("\r\n"))
    return {name.strip().lower(): value.strip() for name, colon, value in pairs if colon}


_MAX_MESSAGES = 1024
_CLOSE_TIMEOUT_S = 2.0


class WebSocketConnection:
    """Controls over a WebSocket; with ``pictures``, frames over Motion JPEG."""

    def __init__(self, rest: Rest, grant: SessionGrant, *, pictures: bool) -> None:
        self._rest = rest
        self._grant = grant
        self._pictures = pictures
        self._socket: ClientConnection | None = None
        self._stream: httpx.Response | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._frames: deque[ClientFrame] = deque(maxlen=UNREAD_FRAMES)
        self._messages: deque[str] = deque(maxlen=_MAX_MESSAGES)
        self._outgoing: asyncio.Queue[str] = asyncio.Queue()
        self._lost: str | None = None
        self._change = asyncio.Event()

    async def open(self) -> None:
        """Connect; see :class:`.connection.ServerConnection`."""
        self._socket = await self._connect()
        self._begin(partial(self._read, self._socket))
        self._begin(partial(self._write, self._socket))
        if self._pictures:
            self._stream = await self._request_stream()
            self._begin(partial(self._watch, self._stream))

    def send(self, text: str) -> None:
        """Queue a message."""
        if self._lost is not None:
            raise ConnectionLost(self._lost)
        self._outgoing.put_nowait(text)

    async def next_message(self) -> str:
        """Wait for the oldest unread message."""
        await self._until(lambda: bool(self._messages))
        return self._messages.popleft()

    async def next_frame(self) -> ClientFrame:
        """Wait for the oldest unread frame."""
        await self._until(lambda: bool(self._frames))
        return self._frames.popleft()

    async def close(self) -> None:
        """Close the connection."""
        self._end("it was closed")
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._stream is not None:
            await self._stream.aclose()
        if self._socket is not None:
            await self._socket.close()

    async def _connect(self) -> ClientConnection:
        link = self._grant.links["controls"]
        url = self._rest.url(link).replace("http", "ws", 1)
        headers = bearer(self._grant.token)
        proxy: Literal[True] | None = True if self._rest.uses_proxy else None
        try:
            return await connect(url, additional_headers=headers, proxy=proxy, close_timeout=_CLOSE_TIMEOUT_S)
        except (OSError, WebSocketException) as error:
            raise TransportError(f"the controls WebSocket could not connect: {error}") from error

    async def _request_stream(self) -> httpx.Response:
        http = self._rest.http
        url = self._rest.url(self._grant.links["mjpeg"])
        timeout = httpx.Timeout(self._rest.timeout_s, read=None)  # a paused session sends no pictures
        request = http.build_request("GET", url, headers=bearer(self._grant.token), timeout=timeout)
        try:
            response = await http.send(request, stream=True)
            if response.status_code >= 400:
                await response.aread()
                raise refusal(response)
        except httpx.HTTPError as error:
            raise self._rest.unreachable(error) from error
        return response

    async def _read(self, socket: ClientConnection) -> None:
        async for message in socket:
            self._messages.append(message if isinstance(message, str) else message.decode(errors="replace"))
            self._change.set()
        self._end(f"the server closed the controls WebSocket ({socket.close_code} {socket.close_reason})".rstrip())

    async def _write(self, socket: ClientConnection) -> None:
        while True:
            await socket.send(await self._outgoing.get())

    async def _watch(self, stream: httpx.Response) -> None:
        reader = MultipartReader()
        async for data in stream.aiter_raw():
            for headers, body in reader.feed(data):
                self._frames.append(_frame(headers, body))
                self._change.set()
        self._end("the server ended the MJPEG stream")

    def _begin(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        self._tasks.append(asyncio.create_task(self._run(work)))

    async def _run(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        try:
            await work()
        except (OSError, WebSocketException, httpx.HTTPError, httpx.StreamError, ValueError) as error:
            self._end(f"{type(error).__name__}: {error}")

    def _end(self, why: str) -> None:
        self._lost = self._lost or why
        self._change.set()

    async def _until(self, condition: Callable[[], bool]) -> None:
        while not condition():
            if self._lost is not None:
                raise ConnectionLost(self._lost)
            self._change.clear()
            await self._change.wait()


def _frame(headers: Mapping[str, str], jpeg: bytes) -> ClientFrame:
    frame_id = parse_frame_id(headers["x-frame"]) if "x-frame" in headers else None
    action = frame_id.action_id if frame_id else None
    return ClientFrame(
        epoch=frame_id.epoch if frame_id else None,
        seq=frame_id.seq if frame_id else None,
        index=frame_id.frame_index if frame_id else None,
        action_seq=int(action) if action and action.isdecimal() else None,
        received_ns=time.monotonic_ns(),
        rtp=None,
        decode=partial(_decode, jpeg),
    )


def _decode(jpeg: bytes) -> NDArray[np.uint8]:
    pixels: NDArray[np.uint8] = simplejpeg.decode_jpeg(jpeg, "RGB")
    return pixels
