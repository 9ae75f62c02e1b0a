"""A visitor without a browser."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypeVar, get_args

from .connection import ClientFrame
from .errors import ClientClosedError, TransportError
from .input import InputState

if TYPE_CHECKING:
    from .connection import ServerConnection
    from .rest import Rest, SessionGrant
    from .session import ClientSession

Transport: TypeAlias = Literal["webrtc", "mjpeg", "none"]
_Result = TypeVar("_Result")


class RealtimeClient:
    """One session of a demo, held as a browser holds it.

    ::

        async with RealtimeClient.connect("http://127.0.0.1:8000", context={"seed": 7}) as client:
            seq = client.press("KeyW")
            async for frame in client.frames():
                if frame.action_seq is not None and frame.action_seq >= seq:
                    break  # the first picture that shows the key

    Made by :meth:`connect`. Not thread-safe: use it from one event loop. When the session has ended or cannot be
    reached any more, everything raises ``SessionEndedError``, ``UnreachableError`` or ``TransportError``; before
    ``open()`` and after ``close()``, ``ClientClosedError``. All are ``ClientError``.
    """

    def __init__(
        self,
        base_url: str,
        *,
        context: Mapping[str, Any] | None,
        transport: Transport,
        token: str | None,
        timeout_s: float,
        silence_s: float,
    ) -> None:
        if transport not in get_args(Transport):
            raise ValueError(f"transport must be one of {', '.join(get_args(Transport))}, got {transport!r}")
        if not base_url.startswith(("http://", "https://")):
            raise ValueError(f"base_url must be the page's address, such as http://127.0.0.1:8000, got {base_url!r}")
        self._base_url = base_url.rstrip("/") + "/"
        self._context = dict(context or {})
        self._transport = transport
        self._token = token
        self._timeout_s = timeout_s
        self._silence_s = silence_s
        self._hands = InputState()
        self._stay: ClientSession | None = None
        self._used = False
        self._undo = contextlib.AsyncExitStack()

    @classmethod
    def connect(
        cls,
        base_url: str,
        *,
        context: Mapping[str, Any] | None = None,
        transport: Transport = "webrtc",
        token: str | None = None,
        timeout_s: float = 30.0,
        silence_s: float = 10.0,
    ) -> RealtimeClient:
        """A client that takes a place and connects when it is entered (``async with``) or :meth:`open` is awaited.

        Args:
            base_url: address of the page.
            context: what the session begins with.
            transport: ``webrtc``; ``mjpeg``, with controls over a WebSocket; ``none``, controls without pictures.
            token: what the server asks its visitors for, if it does.
            timeout_s: bound of each request, and of connecting.
            silence_s: a server that answers no ping for so long has gone.

        Raises:
            ValueError: naming the argument.
        """
        return cls(
            base_url, context=context, transport=transport, token=token, timeout_s=timeout_s, silence_s=silence_s
        )

    async def open(self) -> None:
        """Take a place and connect; on failure nothing is left open.

        Raises:
            ImportError: the ``serve`` extra is not installed.
            FullError: all places are taken.
            UnavailableError: the model is loading, or the server is shutting down.
            RejectedError: the context is not accepted.
            RefusedError: another problem.
            UnreachableError, TransportError: no connection.
        """
        if self._used:
            raise ClientClosedError("a client is opened once: make another with RealtimeClient.connect()")
        self._used = True
        async with contextlib.AsyncExitStack() as undo:
            self._stay = await self._connect(undo)
            self._undo = undo.pop_all()

    async def close(self) -> None:
        """Disconnect and give the place back; in any state, and again."""
        if self._stay is not None:
            await self._undo.aclose()

    async def __aenter__(self) -> RealtimeClient:
        await self.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    @property
    def base_url(self) -> str:
        """Address of the page, ending in a slash."""
        return self._base_url

    @property
    def session_id(self) -> str:
        """The server's name for the session."""
        return self._opened().place.session_id

    @property
    def session_token(self) -> str:
        """What proves to the server that the session is this client's."""
        return self._opened().place.token

    @property
    def keys(self) -> tuple[str, ...]:
        """Held keys, oldest press first."""
        return self._hands.keys

    def press(self, code: str) -> int:
        """Hold a key (``KeyboardEvent.code``) until :meth:`release`.

        Returns:
            Number of the message, as all that send: frames with this ``action_seq`` or a greater one show it.
        """
        return self._send(*self._hands.press(code))

    def release(self, code: str) -> int:
        """Let go of a key."""
        return self._send(*self._hands.release(code))

    def tap(self, code: str) -> int:
        """Press a key and let go of it within one message: the model sees the edges only."""
        return self._send(*self._hands.tap(code))

    def move_pointer(self, dx: float, dy: float) -> int:
        """Move the pointer by CSS pixels, right and down positive."""
        return self._send(*self._hands.move_pointer(dx, dy))

    def set_fields(self, **fields: Any) -> int:
        """Set some of the demo's typed fields. A value that is not accepted comes back as an ``error`` event."""
        return self._send(*self._hands.set_fields(fields))

    def send(self, message: Mapping[str, Any] | str) -> int | None:
        """Send a message of the controls protocol (docs/protocol.md).

        A mapping gets ``v`` and ``seq`` where they are missing. A text goes as it is, and ``None`` is returned.
        """
        if isinstance(message, str):
            self._opened().send(message)
            return None
        return self._send(*self._hands.number(message))

    async def next_frame(self, timeout_s: float | None = None) -> ClientFrame:
        """The oldest unread picture, waiting for one. At most 8 are kept; those from before a reset are left out.

        Each picture is handed out once: have one reader.

        Raises:
            TimeoutError: none came within ``timeout_s``.
        """
        return await _within(timeout_s, self._opened().next_frame())

    async def frames(self) -> AsyncIterator[ClientFrame]:
        """Pictures, until the client is closed."""
        stay = self._opened()
        with contextlib.suppress(ClientClosedError):
            while True:
                yield await stay.next_frame()

    async def next_event(self, timeout_s: float | None = None) -> dict[str, Any]:
        """The oldest unread ``event`` or ``error`` message of docs/protocol.md.

        Raises:
            TimeoutError: none came within ``timeout_s``.
        """
        return await _within(timeout_s, self._opened().next_event())

    async def events(self) -> AsyncIterator[dict[str, Any]]:
        """``event`` and ``error`` messages, until the client is closed."""
        stay = self._opened()
        with contextlib.suppress(ClientClosedError):
            while True:
                yield await stay.next_event()

    async def reset(self, context: Mapping[str, Any] | None = None) -> int:
        """Start the session anew, with the fields of ``context`` changed. Returns its new epoch.

        Raises:
            RejectedError: the context is not accepted.
            RefusedError: another problem.
        """
        stay = self._opened()
        body = {"context": dict(context or {})}
        answer = await stay.rest.request("POST", stay.place.links["reset"], place=stay.place, json=body)
        epoch = int(answer.json()["epoch"])
        stay.begin_epoch(epoch)
        return epoch

    async def pause(self) -> None:
        """Stop the session's time."""
        await self._set_active(False)

    async def resume(self) -> None:
        """Let it run on."""
        await self._set_active(True)

    async def _set_active(self, active: bool) -> None:
        stay = self._opened()
        await stay.rest.request("PATCH", stay.place.links["self"], place=stay.place, json={"active": active})

    async def _connect(self, undo: contextlib.AsyncExitStack) -> ClientSession:
        rest_type, link_type = _load(self._transport)
        from .session import ClientSession, give_back

        rest = rest_type(self._base_url, self._token, self._timeout_s)
        undo.push_async_callback(rest.close)
        place = await rest.create(self._context)
        undo.push_async_callback(give_back, rest, place)
        link = link_type(rest, place)
        undo.push_async_callback(link.close)
        try:
            await _within(self._timeout_s, link.open())
        except TimeoutError as error:
            hint = " (UDP blocked?)" if self._transport == "webrtc" else ""
            raise TransportError(f"{self._transport} did not connect within {self._timeout_s} s{hint}") from error
        stay = ClientSession(rest, place, link, self._hands, self._silence_s)
        undo.push_async_callback(stay.close)
        return stay

    def _opened(self) -> ClientSession:
        if self._stay is None:
            raise ClientClosedError("the client is not open")
        self._stay.check()
        return self._stay

    def _send(self, seq: int, text: str) -> int:
        self._opened().send(text)
        return seq


def _load(transport: Transport) -> tuple[type[Rest], Callable[[Rest, SessionGrant], ServerConnection]]:
    """Import what only the ``serve`` extra brings."""
    try:
        from .rest import Rest

        if transport == "webrtc":
            from .webrtc_connection import WebRtcConnection

            return Rest, WebRtcConnection
        from .websocket_connection import WebSocketConnection

        return Rest, partial(WebSocketConnection, pictures=transport == "mjpeg")
    except ImportError as error:
        raise ImportError(f"RealtimeClient needs {error.name}: pip install 'realtime-engine[serve]'") from error


async def _within(timeout_s: float | None, work: Awaitable[_Result]) -> _Result:
    try:
        return await asyncio.wait_for(work, timeout_s)
    except asyncio.TimeoutError as error:  # which is no TimeoutError before Python 3.11
        raise TimeoutError(f"nothing came within {timeout_s} s") from error
