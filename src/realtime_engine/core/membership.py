"""Sessions of a serve loop, and the replies to their messages: what every serve loop has in common."""

from __future__ import annotations

import abc
import logging
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, Generic, Protocol, TypeAlias, TypeVar

from .errors import OutboxClosed, describe
from .messages import (
    Action,
    ActiveChanged,
    Attach,
    Attached,
    Detach,
    Detached,
    Failed,
    InboxMsg,
    Rejected,
    RejectionCode,
    Reset,
    SessionEvent,
    SetActive,
)
from .monitor import ServeMonitor
from .outbox import Outbox, OutboxItem
from .session import Identities, PendingReplies

logger = logging.getLogger(__name__)

MAX_CONSECUTIVE_FAILURES = 10
"""After so many failures in a row a session is detached."""

_STOPPING = "the engine is stopping"

Pending: TypeAlias = Coroutine[Any, Any, None] | None
"""What is left to be done for a message: a coroutine, or nothing."""


class Member(Protocol):
    """A session, as far as its membership is concerned.

    Attributes:
        context: what it was attached or reset with.
        epoch: grows with each attach and reset.
        seq: of the next chunk.
        active: whether it is not paused.
    """

    session_id: str
    context: Mapping[str, Any]
    epoch: int
    seq: int
    active: bool


S = TypeVar("S", bound=Member)


class Membership(abc.ABC, Generic[S]):
    """Applies messages to sessions and sends the replies, each in order with the chunks.

    A subclass admits, restarts and releases sessions. A hook that has to wait returns a coroutine, which the caller of
    :meth:`handle` runs before the next message of that session.

    Args:
        outbox: takes events and chunks.
        monitor: counts rejections and failures.
    """

    def __init__(self, outbox: Outbox, monitor: ServeMonitor) -> None:
        self.sessions: dict[str, S] = {}
        self.identities = Identities()
        self.replies = PendingReplies()
        self.monitor = monitor
        self._outbox = outbox
        monitor.outbox = outbox
        self._handlers: dict[type, Callable[[Any, int], Pending]] = {
            Attach: self._attach,
            Detach: self._detach,
            Reset: self._reset,
            Action: self._action,
            SetActive: self._set_active,
        }

    # -- hooks

    @property
    @abc.abstractmethod
    def stopping(self) -> bool:
        """Whether no session may begin any more."""

    @abc.abstractmethod
    def on_outbox_closed(self) -> None:
        """The reader has closed the outbox: stop."""

    @abc.abstractmethod
    def admit(self, msg: Attach) -> Pending:
        """Attach a session whose id is free, and reply."""

    @abc.abstractmethod
    def restart(self, session: S, context: Mapping[str, Any]) -> Pending:
        """Reset a session to this context, and reply."""

    @abc.abstractmethod
    def apply(self, session: S, msg: Action, received_ns: int) -> Pending:
        """Apply an action."""

    @abc.abstractmethod
    def schedule(self, session: S) -> None:
        """Step a session or not, as its state demands: ``session.active`` has changed."""

    @abc.abstractmethod
    def end(self, session: S, error: BaseException | None = None) -> Pending:
        """Release a session; ``error`` is why it ends, if it was not asked to."""

    @abc.abstractmethod
    def steps_in_flight(self, session: S) -> int:
        """Calls of ``replies.on_step`` until the chunks of a session that were begun have been sent."""

    def detach_unknown(self, session_id: str) -> None:
        """Reply to the detach of a session that is not attached."""
        self.put((Detached(session_id, epoch=self.identities.last_epoch(session_id)),))

    def reply_to_attach(self, session: S) -> None:
        """Send the reply to the attach or reset of a session, if it is still to come."""

    # -- messages

    def handle(self, msg: InboxMsg, received_ns: int) -> Pending:
        """Apply a message."""
        return self._handlers[type(msg)](msg, received_ns)

    def _attach(self, msg: Attach, received_ns: int) -> Pending:
        session = self.sessions.get(msg.session_id)
        if session is not None:
            self.reply_to_attach(session)
            self.reply(session, Attached(session.session_id, epoch=session.epoch))
        elif self.stopping:
            self.reject(msg.session_id, RejectionCode.STOPPING, _STOPPING)
        else:
            return self.admit(msg)
        return None

    def _detach(self, msg: Detach, received_ns: int) -> Pending:
        session = self.sessions.get(msg.session_id)
        if session is not None:
            return self.end(session)
        self.detach_unknown(msg.session_id)
        return None

    def _reset(self, msg: Reset, received_ns: int) -> Pending:
        if self.stopping:
            self.reject(msg.session_id, RejectionCode.STOPPING, _STOPPING)
            return None
        session = self._attached(msg.session_id)
        return None if session is None else self.restart(session, msg.context or session.context)

    def _action(self, msg: Action, received_ns: int) -> Pending:
        session = self._attached(msg.session_id)
        return None if session is None else self.apply(session, msg, received_ns)

    def _set_active(self, msg: SetActive, received_ns: int) -> None:
        session = self._attached(msg.session_id)
        if session is None:
            return
        self.reply_to_attach(session)
        session.active = msg.active
        self.schedule(session)
        after = 0 if msg.active else self.steps_in_flight(session)  # a pause: the chunks in flight are sent first
        self.reply(session, ActiveChanged(session.session_id, msg.active, epoch=session.epoch), after)

    def _attached(self, session_id: str) -> S | None:
        """The session; ``None``, and a rejection, when it is not attached."""
        session = self.sessions.get(session_id)
        if session is None:
            self.reject(session_id, RejectionCode.NOT_ATTACHED, f"session {session_id!r} is not attached")
        return session

    # -- membership

    def forget(self, session: S) -> None:
        """Remove a session; its id continues counting when it is attached again."""
        del self.sessions[session.session_id]
        self.identities.store(session.session_id, session.epoch, session.seq)

    def ended(self, session: S, error: BaseException | None, hook: str = "") -> None:
        """Report that a session is gone: ``Detached``, or ``Failed(fatal=True)`` with the error it ended by.

        ``hook`` names the function that raised it, if it is not a step.
        """
        if error is None:
            self.reply(session, Detached(session.session_id, epoch=session.epoch))
        else:
            self.failed(session, error, fatal=True, hook=hook)

    def failed(self, session: S, error: BaseException, *, fatal: bool = False, hook: str = "") -> None:
        """Report and count a failure of a session."""
        self.monitor.failed += 1
        self.reply(session, Failed(session.session_id, describe(error, hook), fatal, epoch=session.epoch))

    # -- replies

    def reject(self, session_id: str, code: RejectionCode, reason: str) -> None:
        """Refuse a message."""
        self.monitor.rejected += 1
        session = self.sessions.get(session_id)
        if session is not None:
            self.reply(session, Rejected(session_id, reason, code, epoch=session.epoch))
        else:
            self.put((Rejected(session_id, reason, code, epoch=self.identities.last_epoch(session_id)),))

    def reply(self, session: S, event: SessionEvent, after: int = 0) -> None:
        """Send an event, never before an older reply; ``after`` steps must pass before."""
        waiting = self.replies.steps_left(session.session_id)
        if after or waiting:
            self.replies.add(event, max(after, waiting))
        else:
            self.put((event,))

    def flush_replies(self, session: S) -> None:
        """Send the replies that wait for chunks, because no chunk will come before them."""
        self.put(self.replies.pop(session.session_id))

    def put(self, items: Sequence[OutboxItem]) -> None:
        """Send chunks and events."""
        if not items:
            return
        try:
            self._outbox.put_many(items)
        except OutboxClosed:
            if not self.stopping:
                logger.warning("the outbox was closed by its reader: the serve loop ends")
            self.on_outbox_closed()
