"""The headless client of a demo server."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypeVar, get_args
from urllib.parse import parse_qs, urlsplit, urlunsplit

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
    """One session of a demo, controlled as from a browser.

    ::

        async with RealtimeClient.connect("http://127.0.0.1:8000", context={"seed": 7}) as client:
            seq = client.press("KeyW")
            async for frame in client.frames():
                if frame.action_seq is not None and frame.action_seq >= seq:
                    break  # the first frame that shows the key press

    Created by :meth:`connect`. Not thread-safe: use it from one event loop. After the end of the session or the loss of
    the connection, all methods raise ``SessionEndedError``, ``UnreachableError`` or ``TransportError``; before
    ``open()`` and after ``close()`` they raise ``ClientClosedError``. All are subclasses of ``ClientError``.
    """

    def __init__(
        self,
        base_url: str,
        *,
        context: Mapping[str, Any] | None = None,
        transport: Transport,
        token: str | None = None,
        timeout_s: float,
        silence_s: float,
        queue_timeout_s: float | None = 0.0,
        invitation: str | None = None,
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
        self._queue_timeout_s = queue_timeout_s
        self._invitation = invitation
        self._input = InputState()
        self._session: ClientSession | None = None
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
        queue_timeout_s: float | None = 0.0,
    ) -> RealtimeClient:
        """Create a client. It connects when it is entered (``async with``) or :meth:`open` is awaited.

        Args:
            base_url: URL of the page.
            context: initial context of the session.
            transport: ``webrtc``; ``mjpeg``, with controls over a WebSocket; ``none``, for controls without frames.
            token: access token of the server, if it requires one.
            timeout_s: timeout of each request, and of connecting.
            silence_s: the connection counts as lost after this time without a reply to a ping.
            queue_timeout_s: how long to wait in line for a place if all sessions are in use; ``None``: without a limit.

        Raises:
            ValueError: an argument is invalid; the message names it.
        """
        return cls(
            base_url,
            context=context,
            transport=transport,
            token=token,
            timeout_s=timeout_s,
            silence_s=silence_s,
            queue_timeout_s=queue_timeout_s,
        )

    @classmethod
    def join(
        cls, link: str, *, transport: Transport = "webrtc", timeout_s: float = 30.0, silence_s: float = 10.0
    ) -> RealtimeClient:
        """Create a client that joins another client's session, which continues when the client is closed.

        It gets frames and events. It controls the session together with others if the link is one to join
        (``?join=...``); otherwise its controls are refused.

        Args:
            link: a link of the page's share dialog, such as ``http://127.0.0.1:8000/?watch=...``.
            transport: as of :meth:`connect`.
            timeout_s: as of :meth:`connect`.
            silence_s: as of :meth:`connect`.

        Raises:
            ValueError: an argument is invalid; the message names it.
        """
        parts = urlsplit(link)
        query = parse_qs(parts.query)
        (invitation,) = query.get("watch") or query.get("join") or [""]
        if not invitation:
            raise ValueError(f"link must contain ?watch=... or ?join=..., as the share dialog shows it, got {link!r}")
        base_url = urlunsplit((parts.scheme, parts.netloc, parts.path, "", ""))
        return cls(base_url, transport=transport, timeout_s=timeout_s, silence_s=silence_s, invitation=invitation)

    async def open(self) -> None:
        """Create a session, or join one, and connect to it. On failure, nothing is left open.

        Raises:
            ImportError: the ``serve`` extra is not installed.
            FullError: the server has no free session, or had none within ``queue_timeout_s``.
            UnavailableError: the model is loading, or the server is shutting down.
            RejectedError: the demo refuses the context.
            RefusedError: the server refuses the request for another reason.
            UnreachableError: the server does not respond.
            TransportError: the transport cannot be connected.
        """
        if self._used:
            raise ClientClosedError("a client opens only once: create another with RealtimeClient.connect()")
        self._used = True
        async with contextlib.AsyncExitStack() as undo:
            self._session = await self._connect(undo)
            self._undo = undo.pop_all()

    async def close(self) -> None:
        """Disconnect, and delete the session unless it was joined or taken over. Idempotent, and valid in any state."""
        if self._session is not None:
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
        """URL of the page, with a trailing slash."""
        return self._base_url

    @property
    def session_id(self) -> str:
        """Id of the session on the server."""
        return self._opened().grant.session_id

    @property
    def session_token(self) -> str:
        """Access token of the session."""
        return self._opened().grant.token

    @property
    def role(self) -> str:
        """What the client may do: ``"viewer"``, ``"controller"`` or ``"owner"``."""
        return self._opened().role

    @property
    def keys(self) -> tuple[str, ...]:
        """Held keys, oldest press first."""
        return self._input.keys

    def press(self, code: str) -> int:
        """Hold a key (``KeyboardEvent.code``) until :meth:`release`.

        Returns:
            Sequence number of the message, as of all methods that send one. Frames with this ``action_seq`` or a
            greater one show the key press.
        """
        return self._send(*self._input.press(code))

    def release(self, code: str) -> int:
        """Release a key."""
        return self._send(*self._input.release(code))

    def tap(self, code: str) -> int:
        """Press and release a key within one message: the model sees the edges only."""
        return self._send(*self._input.tap(code))

    def move_pointer(self, dx: float, dy: float) -> int:
        """Move the pointer by CSS pixels, right and down positive."""
        return self._send(*self._input.move_pointer(dx, dy))

    def set_fields(self, **fields: Any) -> int:
        """Set typed fields of the demo. A refused value is reported by an ``error`` event."""
        return self._send(*self._input.set_fields(fields))

    def send(self, message: Mapping[str, Any] | str) -> int | None:
        """Send a message of the controls protocol (docs/protocol.md).

        Missing members ``v`` and ``seq`` are added to a mapping. Text is sent unchanged, and ``None`` is returned.
        """
        if isinstance(message, str):
            self._opened().send(message)
            return None
        return self._send(*self._input.number(message))

    async def next_frame(self, timeout_s: float | None = None) -> ClientFrame:
        """Wait for the oldest unread frame. At most 8 are buffered; frames from before a reset are skipped.

        Each frame is returned once, so use a single reader.

        Raises:
            TimeoutError: no frame arrived within ``timeout_s``.
        """
        return await _within(timeout_s, self._opened().next_frame())

    async def frames(self) -> AsyncIterator[ClientFrame]:
        """Iterate over frames until the client is closed."""
        session = self._opened()
        with contextlib.suppress(ClientClosedError):
            while True:
                yield await session.next_frame()

    async def next_event(self, timeout_s: float | None = None) -> dict[str, Any]:
        """Wait for the oldest unread ``event``, ``error``, ``role`` or ``takeover`` message (docs/protocol.md).

        Raises:
            TimeoutError: no message arrived within ``timeout_s``.
        """
        return await _within(timeout_s, self._opened().next_event())

    async def events(self) -> AsyncIterator[dict[str, Any]]:
        """Iterate over the messages of :meth:`next_event` until the client is closed."""
        session = self._opened()
        with contextlib.suppress(ClientClosedError):
            while True:
                yield await session.next_event()

    async def reset(self, context: Mapping[str, Any] | None = None) -> int:
        """Reset the session, with the given fields changed. Returns the new epoch.

        Raises:
            RejectedError: the demo refuses the context.
            RefusedError: the server refuses the request for another reason.
        """
        session = self._opened()
        body = {"context": dict(context or {})}
        answer = await session.rest.request("POST", session.grant.links["reset"], grant=session.grant, json=body)
        epoch = int(answer.json()["epoch"])
        session.begin_epoch(epoch)
        return epoch

    async def pause(self) -> None:
        """Pause the session."""
        await self._set_active(False)

    async def resume(self) -> None:
        """Resume the session."""
        await self._set_active(True)

    async def take_over(self) -> bool:
        """Ask to become the owner of the session.

        Returns:
            Whether the client is the owner now. Otherwise the owner is asked: a ``role`` message reports consent, a
            ``takeover`` message a refusal (:meth:`next_event`).

        Raises:
            RefusedError: the owner has just refused.
        """
        session = self._opened()
        answer = await session.rest.request("POST", session.grant.links["takeover"], grant=session.grant)
        return answer.status_code == 200

    async def answer_take_over(self, member: str, *, accept: bool) -> None:
        """Answer the ``takeover`` message of a client that asks to become the owner, by its ``member``.

        Raises:
            RefusedError: this client is not the owner.
        """
        session = self._opened()
        link = f"{session.grant.links['takeover']}/{member}"
        await session.rest.request("POST", link, grant=session.grant, json={"accept": accept})

    async def _set_active(self, active: bool) -> None:
        session = self._opened()
        await session.rest.request("PATCH", session.grant.links["self"], grant=session.grant, json={"active": active})

    async def _connect(self, undo: contextlib.AsyncExitStack) -> ClientSession:
        rest_type, connection_type = _load(self._transport)
        from .session import ClientSession, delete_session, leave_session

        rest = rest_type(self._base_url, self._token, self._timeout_s)
        undo.push_async_callback(rest.close)
        if self._invitation is None:
            grant = await rest.create(self._context, self._queue_timeout_s)
            undo.push_async_callback(delete_session, rest, grant)
        else:
            grant = await rest.join(self._invitation)
            undo.push_async_callback(leave_session, rest, grant)
        connection = connection_type(rest, grant)
        undo.push_async_callback(connection.close)
        try:
            await _within(self._timeout_s, connection.open())
        except TimeoutError as error:
            hint = " (UDP blocked?)" if self._transport == "webrtc" else ""
            raise TransportError(f"{self._transport} did not connect within {self._timeout_s} s{hint}") from error
        session = ClientSession(rest, grant, connection, self._input, self._silence_s)
        undo.push_async_callback(session.close)
        return session

    def _opened(self) -> ClientSession:
        if self._session is None:
            raise ClientClosedError("the client is not open")
        self._session.check()
        return self._session

    def _send(self, seq: int, text: str) -> int:
        self._opened().send(text)
        return seq


def _load(transport: Transport) -> tuple[type[Rest], Callable[[Rest, SessionGrant], ServerConnection]]:
    """Import the modules that need the ``serve`` extra."""
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
    except asyncio.TimeoutError as error:  # a different class before Python 3.11
        raise TimeoutError(f"nothing arrived within {timeout_s} s") from error
