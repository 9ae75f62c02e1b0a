"""A connected client session."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
from collections import deque
from typing import Any

from .connection import ClientFrame, ConnectionLost, ServerConnection
from .errors import ClientClosedError, ClientError, RefusedError, SessionEndedError, TransportError
from .input import InputState
from .rest import Rest, SessionGrant

_log = logging.getLogger(__name__)

_HEARTBEAT_S = 0.5
_CLOSING_TIMEOUT_S = 5.0
_MAX_EVENTS = 1024


class ClientSession:
    """Reads messages, sends heartbeats, and determines the cause when the connection is lost.

    The session ends either closed by the client (:class:`ClientClosedError`) or lost (any other :class:`ClientError`).
    Waiting methods raise the respective error.

    Attributes:
        role: what the client may do now: ``"viewer"``, ``"controller"`` or ``"owner"``.
    """

    def __init__(
        self, rest: Rest, grant: SessionGrant, connection: ServerConnection, input_state: InputState, silence_s: float
    ) -> None:
        self.rest = rest
        self.grant = grant
        self.role = grant.role
        self._connection = connection
        self._input = input_state
        self._silence_s = silence_s
        self._epoch = 0
        self._events: deque[dict[str, Any]] = deque(maxlen=_MAX_EVENTS)
        self._event_arrived = asyncio.Event()
        self._error: ClientError | None = None
        self._ended = asyncio.Event()
        self._last_message_s = _now_s()
        self._tasks = [asyncio.create_task(self._read()), asyncio.create_task(self._send_heartbeats())]

    def check(self) -> None:
        """Raise the error with which the session ended, if it has ended."""
        if self._error is not None:
            raise self._error

    def send(self, text: str) -> None:
        """Send a message.

        Raises:
            TransportError: the connection was lost.
        """
        self.check()
        try:
            self._connection.send(text)
        except ConnectionLost as lost:
            raise TransportError(f"the connection was lost: {lost}") from lost

    def begin_epoch(self, epoch: int) -> None:
        """Discard frames of older epochs from now on."""
        self._epoch = epoch

    async def next_frame(self) -> ClientFrame:
        """Wait for the oldest unread frame."""
        try:
            while True:
                frame = await self._connection.next_frame()
                if frame.epoch is None or frame.epoch >= self._epoch:
                    return frame
        except ConnectionLost as lost:
            await self._ended.wait()
            self.check()
            raise AssertionError("an ended session has an error") from lost

    async def next_event(self) -> dict[str, Any]:
        """Wait for the oldest unread ``event``, ``error``, ``role`` or ``takeover`` message."""
        while not self._events:
            self.check()
            self._event_arrived.clear()
            await self._event_arrived.wait()
        return self._events.popleft()

    async def close(self) -> None:
        """Disconnect, without deleting the session on the server."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._end(ClientClosedError("the client is closed"))
        await self._connection.close()

    async def _read(self) -> None:
        try:
            while True:
                self._on_message(await self._connection.next_message())
        except ConnectionLost as lost:
            error = await self._diagnose(str(lost))
            _log.debug("session %s is lost: %s", self.grant.session_id, error)
            await self._connection.close()
            self._end(error)

    def _on_message(self, text: str) -> None:
        self._last_message_s = _now_s()
        message = json.loads(text)
        if message["type"] == "role":
            self.role = message["role"]
        if message["type"] in ("event", "error", "role", "takeover"):
            self._events.append(message)
            self._event_arrived.set()

    async def _send_heartbeats(self) -> None:
        with contextlib.suppress(ConnectionLost):  # handled by the reading task
            while _now_s() - self._last_message_s < self._silence_s:
                for text in self._input.heartbeat():
                    self._connection.send(text)
                await asyncio.sleep(_HEARTBEAT_S)
            await self._connection.close()

    async def _diagnose(self, why: str) -> ClientError:
        try:
            await self.rest.request("GET", self.grant.links["self"], grant=self.grant, timeout=_CLOSING_TIMEOUT_S)
        except RefusedError as error:
            return SessionEndedError(f"the session has ended: {self._fatal_error() or error}")
        except ClientError as error:
            return error
        return TransportError(f"the connection was lost: {why}")

    def _fatal_error(self) -> str | None:
        failures = [event["error"] for event in self._events if event.get("event") == "failed" and event["fatal"]]
        return failures[-1] if failures else None

    def _end(self, error: ClientError) -> None:
        self._error = error
        self._ended.set()
        self._event_arrived.set()


async def delete_session(rest: Rest, grant: SessionGrant) -> None:
    """Delete the session on the server, if it responds; leave it if another client has taken it over."""
    try:
        await rest.request("DELETE", grant.links["self"], grant=grant, timeout=_CLOSING_TIMEOUT_S)
    except RefusedError as error:
        if error.status == 403:
            await leave_session(rest, grant)
    except ClientError as error:
        _log.debug("session %s could not be deleted: %s", grant.session_id, error)


async def leave_session(rest: Rest, grant: SessionGrant) -> None:
    """Leave a session that was joined, if the server responds."""
    try:
        await rest.request("POST", grant.links["leave"], grant=grant, timeout=_CLOSING_TIMEOUT_S)
    except ClientError as error:
        _log.debug("session %s could not be left: %s", grant.session_id, error)


def _now_s() -> float:
    return asyncio.get_running_loop().time()
