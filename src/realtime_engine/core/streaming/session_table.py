"""The sessions of a pipeline, by id."""

from __future__ import annotations

from .errors import SessionActiveError, UnknownSessionError
from .graph import PipelineGraph
from .ingress import check_final
from .session import RUNNING, StreamingSession
from .tasks import StreamingSessionContext
from .work import ActorLane


class SessionTable:
    """Sessions by id; an id is free again when its last session is released. Writes are guarded by the scheduling lock.

    Epochs are counted over all ids, so that ids that have left need not be remembered.

    Args:
        window: how many sequences the records of a session cover.
    """

    def __init__(self, graph: PipelineGraph, window: int) -> None:
        self._graph = graph
        self._window = window
        self._sessions: dict[str, StreamingSession] = {}
        self._epochs = 0

    def __len__(self) -> int:
        return len(self._sessions)

    def get(self, session_id: str) -> StreamingSession:
        """``UnknownSessionError`` when there is none. Needs no lock."""
        session = self._sessions.get(session_id)
        if session is None:
            raise UnknownSessionError(f"there is no session {session_id!r}")
        return session

    def all(self) -> list[StreamingSession]:
        return list(self._sessions.values())

    def add(self, session_id: str, lanes: tuple[ActorLane, ...], final: int | None) -> StreamingSession:
        """Begin a session. ``SessionActiveError`` when the id is not free, ``SequenceError`` for a bad ``final``."""
        self._check_free(session_id)
        context = StreamingSessionContext(session_id, self._epochs + 1)
        session = StreamingSession(context, self._graph, lanes, None, self._window)
        if final is not None and check_final(session, final):
            session.final = final
        self._epochs += 1
        self._sessions[session_id] = session
        return session

    def forget(self, session: StreamingSession) -> None:
        """Let go of one that is released; nothing when it could not be, or when the id has a newer session."""
        if session.released and session.cleanup_error is None and self._sessions.get(session.session_id) is session:
            del self._sessions[session.session_id]

    def _check_free(self, session_id: str) -> None:
        last = self._sessions.get(session_id)
        if last is None or (last.released and last.cleanup_error is None):
            return
        if last.status is RUNNING:
            raise SessionActiveError(f"session {session_id!r} is running; close it first, or use another id")
        if last.cleanup_error is None:
            raise SessionActiveError(f"the last session {session_id!r} is not released yet; try again later")
        raise SessionActiveError(f"the id {session_id!r} cannot be used again: {last.cleanup_error}")
