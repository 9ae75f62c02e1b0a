"""A session on the server, from the moment that it is connected."""

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
_LAST_REQUESTS_S = 5.0
_MAX_EVENTS = 1024


class ClientSession:
    """Reads what comes, shows that somebody is there, and finds out what the loss of the link means.

    It ends in one of two ways: closed by this side (:class:`ClientClosedError`) or lost (any other
    :class:`ClientError`); whoever waits is told which.
    """

    def __init__(
        self, rest: Rest, place: SessionGrant, link: ServerConnection, hands: InputState, silence_s: float
    ) -> None:
        self.rest = rest
        self.place = place
        self._link = link
        self._hands = hands
        self._silence_s = silence_s
        self._epoch = 0
        self._events: deque[dict[str, Any]] = deque(maxlen=_MAX_EVENTS)
        self._event_came = asyncio.Event()
        self._ending: ClientError | None = None
        self._over = asyncio.Event()
        self._heard_s = _now_s()
        self._tasks = [asyncio.create_task(self._listen()), asyncio.create_task(self._beat())]

    def check(self) -> None:
        """Raise how it ended, if it has."""
        if self._ending is not None:
            raise self._ending

    def send(self, text: str) -> None:
        """Send a message."""
        self.check()
        try:
            self._link.send(text)
        except ConnectionLost as lost:
            raise TransportError(f"the connection was lost: {lost}") from lost

    def begin_epoch(self, epoch: int) -> None:
        """Let no frame of an older epoch through."""
        self._epoch = epoch

    async def next_frame(self) -> ClientFrame:
        """The oldest unread picture."""
        try:
            while True:
                frame = await self._link.next_frame()
                if frame.epoch is None or frame.epoch >= self._epoch:
                    return frame
        except ConnectionLost as lost:
            await self._over.wait()
            self.check()
            raise AssertionError("a stay that is over has an ending") from lost

    async def next_event(self) -> dict[str, Any]:
        """The oldest unread ``event`` or ``error`` message."""
        while not self._events:
            self.check()
            self._event_came.clear()
            await self._event_came.wait()
        return self._events.popleft()

    async def close(self) -> None:
        """Disconnect; the place is still taken."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._end(ClientClosedError("the client is closed"))
        await self._link.close()

    async def _listen(self) -> None:
        try:
            while True:
                self._hear(await self._link.next_message())
        except ConnectionLost as lost:
            ending = await self._diagnose(str(lost))
            _log.debug("session %s is lost: %s", self.place.session_id, ending)
            await self._link.close()
            self._end(ending)

    def _hear(self, text: str) -> None:
        self._heard_s = _now_s()
        message = json.loads(text)
        if message["type"] in ("event", "error"):
            self._events.append(message)
            self._event_came.set()

    async def _beat(self) -> None:
        with contextlib.suppress(ConnectionLost):  # the listener hears of it too
            while _now_s() - self._heard_s < self._silence_s:
                for text in self._hands.heartbeat():
                    self._link.send(text)
                await asyncio.sleep(_HEARTBEAT_S)
            await self._link.close()

    async def _diagnose(self, why: str) -> ClientError:
        try:
            await self.rest.request("GET", self.place.links["self"], place=self.place, timeout=_LAST_REQUESTS_S)
        except RefusedError as error:
            return SessionEndedError(f"the session has ended: {self._last_words() or error}")
        except ClientError as error:
            return error
        return TransportError(f"the connection was lost: {why}")

    def _last_words(self) -> str | None:
        failures = [event["error"] for event in self._events if event.get("event") == "failed" and event["fatal"]]
        return failures[-1] if failures else None

    def _end(self, ending: ClientError) -> None:
        self._ending = ending
        self._over.set()
        self._event_came.set()


async def give_back(rest: Rest, place: SessionGrant) -> None:
    """Give the place back, if the server is still there."""
    try:
        await rest.request("DELETE", place.links["self"], place=place, timeout=_LAST_REQUESTS_S)
    except ClientError as error:
        _log.debug("session %s could not be given back: %s", place.session_id, error)


def _now_s() -> float:
    return asyncio.get_running_loop().time()
