"""All sessions of a server: admission, lookup by id and token, and the end of each."""

from __future__ import annotations

import asyncio
import logging
import math
import re
from collections.abc import Iterable, Mapping
from typing import Any

from ...infra.controls import ControlState
from ..counters import Counts
from ..problems import Problem, pointer, session_over
from ..resources import ServerResources
from ..security import same_secret, unauthorized
from .controls import make_context, stage_fields
from .engine_requests import RequestRefused, SessionOver
from .session import DemoSession

logger = logging.getLogger(__name__)

_MIN_RETRY_S = 1
_MAX_RETRY_S = 10
_MAX_ENDED = 1024  # ended sessions that are remembered, so that their links answer 410
_EXCEPTION = re.compile(r"[A-Z]\w*(?:: |$)")  # how the engine reports an exception as the reason of a refusal


class Sessions:
    """The sessions of a server. Belongs to one event loop.

    Args:
        resources: what the sessions share.
    """

    def __init__(self, resources: ServerResources) -> None:
        self._resources = resources
        self._sessions: dict[str, DemoSession] = {}  # until the engine has detached them
        self._ended_tokens: dict[str, str] = {}  # by session id, oldest first
        self._ended_counts = Counts()
        self._closing = False

    @property
    def capacity(self) -> int:
        """How many sessions the engine has room for."""
        return self._resources.manifest.max_sessions

    @property
    def occupied(self) -> int:
        """Sessions that count towards the capacity, those that are attaching or ending included."""
        return len(self._sessions)

    @property
    def stalled_s(self) -> float:
        """The longest time, in seconds, for which the engine has owed a session a reply or a chunk."""
        return max((session.stalled_s for session in self._sessions.values()), default=0.0)

    def all(self) -> list[DemoSession]:
        """The sessions that are admitted and not ending, oldest first."""
        return [session for session in self._sessions.values() if not session.is_ending and session.epoch]

    def counts(self) -> Counts:
        """Totals over all sessions, the ended ones included."""
        total = self._ended_counts
        for session in self._sessions.values():
            total = total.plus(session.counts())
        return total

    def get(self, session_id: str, token: str | None) -> DemoSession:
        """The session with this id and token.

        Raises:
            Problem: the token is wrong (401), the session does not exist (404) or has ended (410).
        """
        session = self.find(session_id, token)
        if session is None or session.is_ending:
            raise session_over()
        return session

    def find(self, session_id: str, token: str | None) -> DemoSession | None:
        """As :meth:`get`, until the engine has detached the session; ``None`` afterwards.

        Raises:
            Problem: the token is wrong (401) or the session does not exist (404).
        """
        session = self._sessions.get(session_id)
        expected = session.token if session is not None else self._ended_tokens.get(session_id)
        if expected is None:
            raise Problem("no-session", f"There is no session {session_id!r}.")
        if not same_secret(token, expected):
            raise unauthorized("Send the session's token as 'Authorization: Bearer ...'.")
        return session

    async def create(self, context: Mapping[str, Any]) -> DemoSession:
        """Create a session and wait until the engine has admitted it.

        Raises:
            Problem: the fields are invalid (422), there is no room or the server shuts down (503), or the model failed
                (500).
        """
        demo = self._resources.demo
        if self._closing:
            raise Problem("closing", "The server is shutting down.", headers={"Retry-After": "5"})
        state = ControlState(demo.controls)
        attach_context = make_context(demo, state.window(stage_fields(state, context)).fields)
        state.update_fields(context)
        if is_full(self.occupied, self.capacity):
            raise self._full()
        session = DemoSession(self._resources, state, self._on_ended)
        self._sessions[session.id] = session
        try:
            await session.attach(attach_context)
        except RequestRefused as refused:
            raise refusal(str(refused)) from refused
        except SessionOver:
            raise Problem("engine-failed", "The model ended before the session started.") from None
        logger.info("session %s started; %d of %d sessions in use", session.id, self.occupied, self.capacity)
        return session

    async def close(self, timeout_s: float) -> None:
        """End all sessions, within ``timeout_s`` seconds."""
        self._closing = True
        sessions = list(self._sessions.values())
        for session in sessions:
            session.end()
        if sessions:
            await asyncio.wait([asyncio.create_task(session.wait_ended(timeout_s)) for session in sessions])
        self.close_streams()

    def close_streams(self) -> None:
        """Admit no more sessions, and end all streams to viewers at once."""
        self._closing = True
        for session in self._sessions.values():
            session.close_streams()

    def _on_ended(self, session: DemoSession) -> None:
        del self._sessions[session.id]
        self._resources.close_log(session.id)
        self._ended_counts = self._ended_counts.plus(session.counts())
        if session.epoch:
            self._ended_tokens[session.id] = session.token
        if len(self._ended_tokens) > _MAX_ENDED:
            del self._ended_tokens[next(iter(self._ended_tokens))]

    def _full(self) -> Problem:
        idle_s = (session.idle.idle_s for session in self.all())
        delay_s = retry_after_s(idle_s, self._resources.config.idle_timeout_s)
        detail = f"All {self.capacity} sessions are in use." if self.capacity > 1 else "The only session is in use."
        return Problem("full", detail, headers={"Retry-After": str(delay_s)})


def is_full(occupied: int, capacity: int) -> bool:
    """Whether no more sessions can be admitted.

    ``occupied`` counts each session from its request to its detachment, so that two requests at the same time never
    get the same slot.
    """
    return occupied >= capacity


def retry_after_s(idle_for_s: Iterable[float], idle_timeout_s: float) -> int:
    """Whole seconds until a retry is worthwhile: when the longest idle session times out, or sooner.

    Args:
        idle_for_s: seconds since each session was last watched or controlled.
        idle_timeout_s: seconds after which an idle session is ended.
    """
    remaining_s = idle_timeout_s - max(idle_for_s, default=0.0)
    return min(max(math.ceil(remaining_s), _MIN_RETRY_S), _MAX_RETRY_S)


def refusal(reason: str) -> Problem:
    """The problem for a request that the engine refused.

    The engine reports an exception of the model as ``ValueError: text``, and a lack of room as a sentence.
    """
    if reason.startswith("ValueError: "):
        detail = reason.removeprefix("ValueError: ")
        return Problem("invalid-context", detail, errors=[(pointer("context"), detail)])
    if _EXCEPTION.match(reason):
        return Problem("engine-failed", reason)
    return Problem("full", reason, headers={"Retry-After": "2"})
