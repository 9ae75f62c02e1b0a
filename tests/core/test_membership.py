from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from realtime_engine import (
    Action,
    ActiveChanged,
    Attach,
    Attached,
    Chunk,
    Detach,
    Detached,
    Failed,
    InboxMsg,
    Outbox,
    Rejected,
    RejectionCode,
    Reset,
    ResetDone,
    ServeMonitor,
    SetActive,
)
from realtime_engine.core.membership import Membership
from realtime_engine.core.session import Session


class Loop(Membership[Session]):
    """Admits every session at once. ``in_flight``: steps until the chunks of a session have been sent."""

    def __init__(self, maxsize: int = 0) -> None:
        self.monitor_given, self.outbox = ServeMonitor(), Outbox(maxsize)
        super().__init__(self.outbox, self.monitor_given)
        self.in_flight = 0
        self.is_stopping = False
        self.closed = False
        self.applied: list[Action] = []
        self.scheduled: list[tuple[str, bool]] = []

    @property
    def stopping(self) -> bool:
        return self.is_stopping

    def on_outbox_closed(self) -> None:
        self.closed = True

    def admit(self, msg: Attach) -> None:
        session = Session(msg.session_id, msg.context, *self.identities.allocate(msg.session_id))
        self.sessions[msg.session_id] = session
        self.reply(session, Attached(session.session_id, epoch=session.epoch))

    def restart(self, session: Session, context: Mapping[str, Any]) -> None:
        self.flush_replies(session)
        session.begin_epoch(context, session.epoch + 1)
        self.reply(session, ResetDone(session.session_id, epoch=session.epoch))

    def apply(self, session: Session, msg: Action, received_ns: int) -> None:
        self.applied.append(msg)

    def schedule(self, session: Session) -> None:
        self.scheduled.append((session.session_id, session.active))

    def end(self, session: Session, error: BaseException | None = None) -> None:
        self.flush_replies(session)
        self.forget(session)
        self.ended(session, error)

    def steps_in_flight(self, session: Session) -> int:
        return self.in_flight

    def take(self, *messages: InboxMsg) -> None:
        for message in messages:
            assert self.handle(message, 0) is None

    def step(self, session_id: str | None = None) -> None:
        """Send a chunk of session a, and the replies that waited for it."""
        self.put((Chunk("a", None), *self.replies.on_step(session_id)))

    async def sent(self, session_id: str = "a") -> list[object]:
        """Everything that session was sent; closes the outbox."""
        self.outbox.close()
        reader = self.outbox.session(session_id)
        return [item async for item in reader]


@pytest.fixture
def loop() -> Loop:
    return Loop()


async def test_every_message_is_answered_once_with_its_epoch(loop: Loop) -> None:
    loop.take(Attach("a", {"seed": 1}), Attach("a"), Action("a"), SetActive("a", True), Reset("a"))
    assert loop.sessions["a"].context == {"seed": 1}  # an empty context is the last one
    loop.take(Reset("a", {"seed": 2}), Detach("a"), Detach("a"), Attach("a"))
    assert loop.sessions["a"].epoch == 4 and len(loop.applied) == 1 and loop.scheduled == [("a", True)]
    assert await loop.sent() == [
        Attached("a", epoch=1),
        Attached("a", epoch=1),
        ActiveChanged("a", True, epoch=1),
        ResetDone("a", epoch=2),
        ResetDone("a", epoch=3),
        Detached("a", epoch=3),
        Detached("a", epoch=3),
        Attached("a", epoch=4),
    ]


async def test_messages_to_a_session_that_is_not_attached_are_rejected(loop: Loop) -> None:
    loop.take(Action("a"), SetActive("a", False), Reset("a"), Detach("a"))
    reason = "session 'a' is not attached"
    assert await loop.sent() == [Rejected("a", reason, RejectionCode.NOT_ATTACHED)] * 3 + [Detached("a")]
    assert loop.monitor.rejected == 3


async def test_a_loop_that_stops_admits_and_resets_no_session(loop: Loop) -> None:
    loop.take(Attach("a"))
    loop.is_stopping = True
    loop.take(Reset("a"), Attach("b"), SetActive("a", False), Detach("a"))
    refused = Rejected("a", "the engine is stopping", RejectionCode.STOPPING, epoch=1)
    assert await loop.sent() == [
        Attached("a", epoch=1),
        refused,
        ActiveChanged("a", False, epoch=1),
        Detached("a", epoch=1),
    ]


async def test_a_pause_and_later_replies_wait_for_the_chunks_in_flight(loop: Loop) -> None:
    loop.take(Attach("a"), Attach("b"))
    loop.in_flight = 2
    loop.take(SetActive("a", False))
    loop.in_flight = 0
    loop.take(SetActive("a", True), Attach("a"))
    loop.step("b")  # of another session
    loop.step("a")
    loop.step()  # of all
    items = await loop.sent()
    assert [type(item) for item in items] == [Attached, Chunk, Chunk, Chunk, ActiveChanged, ActiveChanged, Attached]
    assert [item.active for item in items if isinstance(item, ActiveChanged)] == [False, True]


async def test_a_reset_flushes_the_replies_that_wait(loop: Loop) -> None:
    loop.take(Attach("a"))
    loop.in_flight = 5
    loop.take(SetActive("a", False), Reset("a"))
    assert await loop.sent() == [Attached("a", epoch=1), ActiveChanged("a", False, epoch=1), ResetDone("a", epoch=2)]


async def test_failures_are_counted_and_a_fatal_one_is_the_last(loop: Loop) -> None:
    loop.take(Attach("a"))
    session = loop.sessions["a"]
    loop.failed(session, ValueError("too wet"))
    loop.end(session, ValueError("drowned"))
    assert loop.monitor.failed == 2 and loop.sessions == {}
    assert await loop.sent() == [
        Attached("a", epoch=1),
        Failed("a", "ValueError: too wet", epoch=1),
        Failed("a", "ValueError: drowned", fatal=True, epoch=1),
    ]


def test_a_closed_outbox_is_reported(loop: Loop, caplog: pytest.LogCaptureFixture) -> None:
    loop.take(Attach("a"))
    loop.outbox.close()
    loop.take(Attach("a"))
    assert loop.closed and "closed by its reader" in caplog.text
    asyncio.run(loop.sent())
