"""All sessions of a server: admission, lookup by id and token, and the end of each."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from ...core.messages import RejectionCode
from ...infra.controls import ControlGroup
from ..counters import Counts
from ..problems import Problem, closing, pointer, session_over
from ..resources import ServerResources
from ..security import unauthorized
from .access import Invitation, Role, SessionAccess
from .controls import make_context, stage_fields
from .engine_requests import RequestRefused, SessionOver
from .session import DemoSession

logger = logging.getLogger(__name__)

_MAX_ENDED = 1024  # ended sessions that are remembered, so that their links answer 410


@dataclass(frozen=True)
class PreparedSession:
    """The validated fields of a session that is not created yet.

    Attributes:
        state: the control state with these fields.
        context: the attach context of the model.
    """

    state: ControlGroup
    context: Mapping[str, Any]


class EndedSession(NamedTuple):
    """What is remembered of a session that has ended."""

    access: SessionAccess
    reason: str


class Sessions:
    """The sessions of a server. Belongs to one event loop.

    Args:
        resources: what the sessions share.

    Attributes:
        on_ended: called with each session that the engine has detached, when its place is free again.
    """

    def __init__(self, resources: ServerResources) -> None:
        self._resources = resources
        self._sessions: dict[str, DemoSession] = {}  # until the engine has detached them
        self._ended: dict[str, EndedSession] = {}  # by session id, oldest first
        self._ended_counts = Counts()
        self._closing = False
        self.on_ended: Callable[[DemoSession], None] = lambda session: None

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

    def get(self, session_id: str, token: str | None, role: Role = Role.OWNER) -> DemoSession:
        """The session with this id, for a client whose token gives it this role or a higher one.

        Raises:
            Problem: the token is wrong (401), its role is lower (403), the session does not exist (404) or has ended
                (410).
        """
        session = self.find(session_id, token, role)
        if session is None:
            raise session_over(self._ended[session_id].reason)
        if session.is_ending:
            raise session_over(session.end_reason)
        return session

    def find(self, session_id: str, token: str | None, role: Role = Role.OWNER) -> DemoSession | None:
        """As :meth:`get`, until the engine has detached the session; ``None`` afterwards.

        Raises:
            Problem: the token is wrong (401), its role is lower (403) or the session does not exist (404).
        """
        session = self._sessions.get(session_id)
        known = session or self._ended.get(session_id)
        if known is None:
            raise Problem("no-session", f"There is no session {session_id!r}.")
        member = known.access.member_of(token)
        if member is None:
            raise unauthorized("Send the session's token as 'Authorization: Bearer ...'.")
        if member.role < role:
            raise Problem("role", f"A {member.role.label} of the session may not do this; its {role.label} may.")
        return session

    def invited(self, secret: str) -> tuple[DemoSession, Invitation]:
        """The session and the invitation to which a secret belongs.

        Raises:
            Problem: there is none, or it was revoked (404); the session has ended (410).
        """
        session_id = secret.partition(".")[0]
        session, ended = self._sessions.get(session_id), self._ended.get(session_id)
        access = session.access if session is not None else None if ended is None else ended.access
        invitation = None if access is None else access.find(secret)
        if invitation is None:
            raise Problem("no-invitation", "There is no such invitation, or it was revoked.")
        if session is None or session.is_ending:
            raise session_over()
        return session, invitation

    def prepare(self, context: Mapping[str, Any]) -> PreparedSession:
        """Validate the fields of a new session.

        Raises:
            Problem: they are invalid (422), the demo's context function failed (500), or the server shuts down (503).
        """
        self._check_open()
        demo = self._resources.demo
        state = ControlGroup(demo.controls)
        attach_context = make_context(demo, state.window(stage_fields(state, context)).fields)
        state.update_fields(context)
        return PreparedSession(state, attach_context)

    def add(self, prepared: PreparedSession) -> DemoSession:
        """A new session, which occupies a place until it has ended; :meth:`start` it next.

        Raises:
            Problem: there is no room, or the server shuts down (503).
        """
        self._check_open()
        if self.occupied >= self.capacity:
            raise Problem("full", f"All {self.capacity} sessions are in use.", headers={"Retry-After": "1"})
        session = DemoSession(self._resources, prepared.state, self._on_ended)
        self._sessions[session.id] = session
        return session

    async def start(self, session: DemoSession, prepared: PreparedSession) -> None:
        """Wait until the engine has admitted the session; otherwise it ends.

        Raises:
            Problem: the engine has no room or does not respond (503), the model refuses the fields (422), or it failed
                (500).
        """
        try:
            await session.attach(prepared.context)
        except RequestRefused as refused:
            raise refusal(refused) from refused
        except SessionOver:
            raise Problem("engine-failed", "The model ended before the session started.") from None
        logger.info("session %s started; %d of %d sessions in use", session.id, self.occupied, self.capacity)

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

    def _check_open(self) -> None:
        if self._closing:
            raise closing()

    def _on_ended(self, session: DemoSession) -> None:
        del self._sessions[session.id]
        self._resources.close_log(session.id)
        self._ended_counts = self._ended_counts.plus(session.counts())
        if session.epoch:
            self._ended[session.id] = EndedSession(session.access, session.end_reason)
        if len(self._ended) > _MAX_ENDED:
            del self._ended[next(iter(self._ended))]
        self.on_ended(session)


def refusal(refused: RequestRefused) -> Problem:
    """The problem for a request that the engine refused."""
    reason = str(refused)
    if refused.code is RejectionCode.INVALID_CONTEXT:
        return Problem("invalid-context", reason, errors=[(pointer("context"), reason)])
    if refused.code is RejectionCode.MODEL_ERROR:
        return Problem("engine-failed", reason)
    if refused.code is RejectionCode.STOPPING:
        return closing()
    return Problem("full", reason, headers={"Retry-After": "2"})
