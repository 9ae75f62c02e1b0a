"""Messages into an engine, and chunks and session events out of it.

Every inbox message is a snapshot: :meth:`Inbox.put_nowait` copies it.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

# -- inbox: caller -> engine


@dataclass(frozen=True)
class Attach:
    """Admit a session. Answered by :class:`Attached` or :class:`Rejected`."""

    session_id: str
    context: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Detach:
    """Release a session. Answered by :class:`Detached`, also when the id is unknown.

    If the engine cannot release it, the answer is ``Failed(fatal=True)``, and the loop retries.
    """

    session_id: str


@dataclass(frozen=True)
class Reset:
    """Seed a session again; an empty context means the last one. Restarts a session that has :class:`Finished`.

    Answered by :class:`ResetDone`, by :class:`Rejected` (the session is unchanged), or by ``Failed(fatal=True)`` when
    it was released and could not be seeded again.
    """

    session_id: str
    context: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Action:
    """Input of one session.

    Attributes:
        conditioning: *state*. The newest replaces the last one as a whole and persists until the next.
        events: *edges* (a key press, a wheel click). Kept in order and passed to exactly one step as
            ``conditioning["events"]``; that key is reserved for them.
        action_id: returned with the first chunk that depends on this action, and with those after it.
    """

    session_id: str
    conditioning: Mapping[str, Any] = field(default_factory=dict)
    events: Sequence[Any] = ()
    action_id: Any = None


@dataclass(frozen=True)
class SetActive:
    """Pause or resume a session; its state stays. Answered by :class:`ActiveChanged` or :class:`Rejected`."""

    session_id: str
    active: bool


InboxMsg: TypeAlias = Attach | Detach | Reset | Action | SetActive

# -- outbox: engine -> caller


class Stamps(NamedTuple):
    """Times of a chunk, in monotonic nanoseconds.

    ``action_received`` is that of the newest :class:`Action` applied, ``None`` before the first.
    """

    action_received: int | None = None
    step_begin: int = 0
    step_end: int = 0
    emitted: int = 0


NO_STAMPS = Stamps()


@dataclass(slots=True)
class Chunk:
    """One session's chunk.

    Attributes:
        output: the model's output; opaque to the engine.
        stats: numbers that belong to the chunk, such as ``step_ms``.
        seq: counts from 0 for each session id; never repeats.
        epoch: grows by one with each attach and each reset of the id; the first is 1.
        action_id: that of the newest :class:`Action` applied, ``None`` before the first of this epoch.
    """

    session_id: str
    output: Any
    stats: Mapping[str, float] = field(default_factory=dict)
    seq: int = 0
    epoch: int = 0
    action_id: Any = None
    stamps: Stamps = NO_STAMPS


@dataclass(frozen=True)
class SessionEvent:
    """A change of a session's state, in order with its chunks.

    ``epoch`` is the session's at that time, 0 for an id that was never attached.
    """

    session_id: str
    epoch: int = field(default=0, kw_only=True)


@dataclass(frozen=True)
class Attached(SessionEvent):
    """The session is admitted and seeded."""


class RejectionCode(str, enum.Enum):
    """Why a message was refused; docs/protocol.md lists what a client does about each."""

    FULL = "full"
    """There is no room for the session now; try again later."""
    INVALID_CONTEXT = "invalid_context"
    """The model refuses the context by a ``ValueError``."""
    MODEL_ERROR = "model_error"
    """A hook of the model raised another exception."""
    NOT_ATTACHED = "not_attached"
    """The session does not exist."""
    NOT_RELEASED = "not_released"
    """The session's id is still in use by the engine; try again later."""
    STOPPING = "stopping"
    """The engine is stopping."""

    @classmethod
    def of(cls, error: BaseException) -> RejectionCode:
        """The code for an exception of the model's own code."""
        return cls.INVALID_CONTEXT if isinstance(error, ValueError) else cls.MODEL_ERROR


@dataclass(frozen=True)
class Rejected(SessionEvent):
    """A message was refused, or a session could not be seeded.

    Attributes:
        reason: a sentence for the user.
        code: the same for programs.
    """

    reason: str
    code: RejectionCode = RejectionCode.FULL


@dataclass(frozen=True)
class ResetDone(SessionEvent):
    """The session starts its next epoch; no chunk of an older epoch follows."""


@dataclass(frozen=True)
class ActiveChanged(SessionEvent):
    """The session is paused (``active=False``: no chunk follows) or resumed."""

    active: bool


@dataclass(frozen=True)
class Detached(SessionEvent):
    """The session is released and its row is free."""


@dataclass(frozen=True)
class Finished(SessionEvent):
    """The rollout has ended with the chunk before this event.

    The session stays attached and is not stepped until a :class:`Reset` starts its next epoch.
    """


@dataclass(frozen=True)
class Failed(SessionEvent):
    """The session's part of a tick failed; ``error`` reads ``TypeName: text``.

    With ``fatal`` the session is over and detached; without, it is stepped again in the next tick, alone.
    """

    error: str
    fatal: bool = False
