"""All sessions of a server: who gets a place, and who has had one."""

from __future__ import annotations

import asyncio
import logging
import math
import re
from collections.abc import Iterable, Mapping
from typing import Any

from ...infra.controls import ControlState
from ..counters import Counts
from ..problems import Problem, pointer
from ..resources import ServerResources
from ..security import same_secret, unauthorised
from .controls import context_of, stage_fields
from .engine_requests import Refused, SessionOver
from .session import DemoSession

_SOONEST_S = 1
_LATEST_S = 10


def is_full(occupied: int, capacity: int) -> bool:
    """Whether no more may come.

    ``occupied`` counts every session from the moment that it asks for its place until the engine has let go of it, so
    that two that come at once never get one place.
    """
    return occupied >= capacity


def retry_after_s(idle_for_s: Iterable[float], idle_timeout_s: float) -> int:
    """Whole seconds after which it is worth asking again: when the longest idle session would be ended, or sooner.

    Args:
        idle_for_s: for each session, seconds since somebody watched or steered it.
        idle_timeout_s: seconds after which such a session is ended.
    """
    soonest = idle_timeout_s - max(idle_for_s, default=0.0)
    return min(max(math.ceil(soonest), _SOONEST_S), _LATEST_S)


logger = logging.getLogger(__name__)

_REMEMBERED = 1024  # sessions that are over: their links say so
_EXCEPTION = re.compile(r"[A-Z]\w*(?:: |$)")  # how the engine words a refusal that was an exception


class Sessions:
    """Belongs to one event loop."""

    def __init__(self, equipment: ServerResources) -> None:
        self._equipment = equipment
        self._sessions: dict[str, DemoSession] = {}  # until the engine has let go of them
        self._over: dict[str, str] = {}  # id -> token, oldest first
        self._ended = Counts()
        self._closing = False

    def all(self) -> list[DemoSession]:
        """Those that live, oldest first."""
        return [session for session in self._sessions.values() if not session.is_over and session.epoch]

    @property
    def occupied(self) -> int:
        """Places taken, arriving and leaving sessions included."""
        return len(self._sessions)

    @property
    def stalled_s(self) -> float:
        """Seconds for which the engine has owed one of them something."""
        return max((session.stalled_s for session in self._sessions.values()), default=0.0)

    def counts(self) -> Counts:
        """Totals of all sessions ever."""
        total = self._ended
        for session in self._sessions.values():
            total = total.plus(session.counts())
        return total

    def get(self, session_id: str, token: str | None) -> DemoSession:
        """The session that ``token`` opens. Errors: :class:`Problem` (401, 404, 410)."""
        session = self.find(session_id, token)
        if session is None or session.is_over:
            raise over()
        return session

    def find(self, session_id: str, token: str | None) -> DemoSession | None:
        """As :meth:`get`, until the engine has let go of it; ``None`` from then on. Errors: (401, 404)."""
        session = self._sessions.get(session_id)
        expected = session.token if session is not None else self._over.get(session_id)
        if expected is None:
            raise Problem("no-session", f"There is no session {session_id!r}.")
        if not same_secret(token, expected):
            raise unauthorised("Show the session's token as 'Authorization: Bearer ...'.")
        return session

    async def create(self, context: Mapping[str, Any]) -> DemoSession:
        """Take a place. Errors: :class:`Problem` (422, 503, 500)."""
        equipment = self._equipment
        if self._closing:
            raise Problem("closing", "The server is shutting down.", headers={"Retry-After": "5"})
        state = ControlState(equipment.demo.controls)
        attach_context = context_of(equipment.demo, state.window(stage_fields(state, context)).fields)
        state.update_fields(context)
        if is_full(self.occupied, self.capacity):
            raise self._full()
        session = DemoSession(equipment, state, self._forget)
        self._sessions[session.id] = session
        try:
            await session.attach(attach_context)
        except Refused as refused:
            raise self.refusal(str(refused)) from refused
        except SessionOver:
            raise Problem("engine-failed", "The model ended before the session began.") from None
        logger.info("session %s begins; %d of %d places taken", session.id, self.occupied, self.capacity)
        return session

    @property
    def capacity(self) -> int:
        return self._equipment.manifest.max_sessions

    async def close(self, timeout_s: float) -> None:
        """End all of them, in ``timeout_s`` seconds at most."""
        self._closing = True
        sessions = list(self._sessions.values())
        for session in sessions:
            session.begin_end()
        if sessions:
            await asyncio.wait([asyncio.create_task(session.ended(timeout_s)) for session in sessions])
        self.begin_close()

    def begin_close(self) -> None:
        """End what is shown of all of them, at once."""
        self._closing = True
        for session in self._sessions.values():
            session.begin_close()

    def _forget(self, session: DemoSession) -> None:
        del self._sessions[session.id]
        self._ended = self._ended.plus(session.counts())
        if session.epoch:
            self._over[session.id] = session.token
        if len(self._over) > _REMEMBERED:
            del self._over[next(iter(self._over))]

    def _full(self) -> Problem:
        timeout_s = self._equipment.config.idle_timeout_s
        seconds = retry_after_s((session.idle_s for session in self.all()), timeout_s)
        detail = f"All {self.capacity} places are taken." if self.capacity > 1 else "The only place is taken."
        return Problem("full", detail, headers={"Retry-After": str(seconds)})

    def refusal(self, reason: str) -> Problem:
        """The engine words an exception of the model as ``ValueError: text``, and a lack of room as a sentence."""
        if reason.startswith("ValueError: "):
            detail = reason.removeprefix("ValueError: ")
            return Problem("invalid-context", detail, errors=[(pointer("context"), detail)])
        if _EXCEPTION.match(reason):
            return Problem("engine-failed", reason)
        return Problem("full", reason, headers={"Retry-After": "2"})


def over(reason: str = "") -> Problem:
    why = f" ({reason})" if reason else ""
    return Problem("session-over", f"The session is over{why}: take a new place.")
