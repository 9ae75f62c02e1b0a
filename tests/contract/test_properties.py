"""Random lives of sessions, with failures, against a simple model of the contract."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from realtime_engine import (
    Action,
    ActiveChanged,
    Attach,
    Attached,
    Chunk,
    Detach,
    Detached,
    Failed,
    Rejected,
    Reset,
    ResetDone,
    SetActive,
)
from realtime_engine.testing import FaultPlan
from tests.serving import ENGINES, Served

IDS = "abcd"
PLACES = 3

# -- what may happen

_who = st.sampled_from(IDS)
_context = st.dictionaries(st.just("seed"), st.integers(1, 9), max_size=1)
_message = st.one_of(
    st.tuples(st.just("attach"), _who, _context),
    st.tuples(st.just("attach"), _who, _context),
    st.tuples(st.just("detach"), _who),
    st.tuples(st.just("reset"), _who, _context),
    st.tuples(st.just("active"), _who, st.booleans()),
    st.tuples(st.just("action"), _who, st.integers(0, 3), st.booleans()),
    st.tuples(st.just("action"), _who, st.integers(0, 3), st.booleans()),
)
_fault = st.tuples(st.just("fault"), _who, st.sampled_from(["step", "finalize", "hot"]), st.integers(1, 40))
_lonely = st.tuples(st.sampled_from(["bad attach", "bad detach"]), _who)
_round = st.one_of(
    st.lists(_message, min_size=1, max_size=5),
    st.lists(st.one_of(_message, _fault), min_size=1, max_size=5),
    _lonely.map(lambda command: [command]),
)
_life = st.lists(_round, min_size=1, max_size=10)


# -- the model of the contract


@dataclass
class Expected:
    """One id, as the contract says that it must look from outside."""

    session_id: str
    attached: bool = False
    active: bool = True
    epoch: int = 0
    context: dict[str, Any] = field(default_factory=dict)
    newest: int | None = None  # number of the newest Action of this epoch
    edges: list[int] = field(default_factory=list)  # pushed in this epoch
    contexts: dict[int, dict[str, Any]] = field(default_factory=dict)  # by epoch
    states: dict[int, list[int | None]] = field(
        default_factory=lambda: defaultdict(list)
    )  # by epoch, in force at steps
    faulted: bool = False  # failures were ordered for it: it may get Failed, and may end

    def begin_epoch(self, context: dict[str, Any]) -> None:
        self.epoch += 1
        self.context = self.contexts[self.epoch] = context
        self.newest, self.edges = None, []


class Contract:
    """Applies messages in order and says how each must be answered."""

    def __init__(self) -> None:
        self.sessions = {session_id: Expected(session_id) for session_id in IDS}
        self.numbers = 0

    @property
    def room(self) -> bool:
        return sum(session.attached for session in self.sessions.values()) < PLACES

    def attach(self, session: Expected, context: dict[str, Any]) -> Any:
        if session.attached:
            return Attached(session.session_id, epoch=session.epoch)
        if not self.room:
            return Rejected(session.session_id, "", epoch=session.epoch)
        session.begin_epoch(context)
        session.attached = session.active = True
        return Attached(session.session_id, epoch=session.epoch)

    def detach(self, session: Expected) -> Any:
        session.attached = False
        return Detached(session.session_id, epoch=session.epoch)

    def reset(self, session: Expected, context: dict[str, Any]) -> Any:
        if not session.attached:
            return Rejected(session.session_id, "", epoch=session.epoch)
        session.begin_epoch(context or session.context)
        return ResetDone(session.session_id, epoch=session.epoch)

    def set_active(self, session: Expected, active: bool) -> Any:
        if not session.attached:
            return Rejected(session.session_id, "", epoch=session.epoch)
        session.active = active
        return ActiveChanged(session.session_id, active, epoch=session.epoch)

    def action(self, session: Expected, number: int, edges: Sequence[int]) -> Any:
        if not session.attached:
            return Rejected(session.session_id, "", epoch=session.epoch)
        session.newest = number
        session.edges.extend(edges)
        return None

    def next_number(self) -> int:
        self.numbers += 1
        return self.numbers


class Observed:
    """Walks the items of one id and checks what must hold whatever happened."""

    def __init__(self, expected: Expected) -> None:
        self.expected = expected
        self.taken = 0
        self.epoch = 0
        self.running = False
        self.seq = -1
        self.begin_epoch(0)

    def begin_epoch(self, epoch: int) -> None:
        self.epoch = epoch
        self.age = -1
        self.state = 0  # index into the states of the epoch
        self.newest: int | None = None
        self.edges: list[int] = []

    def walk(self, items: Sequence[Any]) -> list[Any]:
        """Check the new items and return the events among them."""
        fresh, self.taken = items[self.taken :], len(items)
        for item in fresh:
            self.chunk(item) if isinstance(item, Chunk) else self.event(item)
        return [item for item in fresh if not isinstance(item, Chunk)]

    def event(self, event: Any) -> None:
        assert event.epoch >= self.epoch, f"{event} after epoch {self.epoch}"
        if isinstance(event, (Attached, ResetDone)) and event.epoch > self.epoch:
            self.begin_epoch(event.epoch)
            self.running = self.running if isinstance(event, ResetDone) else True
        elif isinstance(event, ActiveChanged):
            self.running = event.active
        elif isinstance(event, Detached) or (isinstance(event, Failed) and event.fatal):
            self.running = False

    def chunk(self, chunk: Chunk) -> None:
        assert self.running, f"a chunk of {chunk.session_id} came although it is paused or gone"
        assert chunk.epoch == self.epoch, f"a chunk of epoch {chunk.epoch} in epoch {self.epoch}"
        assert chunk.seq == self.seq + 1, f"seq {chunk.seq} after {self.seq}"
        self.seq = chunk.seq
        made = chunk.output
        assert made.age == self.age + 1, f"age {made.age} after {self.age}: a chunk is lost or made twice"
        self.age = made.age
        assert made.context == self.expected.contexts[chunk.epoch]
        number = made.conditioning.get("n")
        assert chunk.action_id == number, "the chunk bears another action's id"
        states = self.expected.states[chunk.epoch]
        assert number in states[self.state :], f"state {number} is stale or never held at a step ({states})"
        self.state = states.index(number, self.state)
        self.newest = number
        for edge in made.conditioning.get("events", ()):
            assert edge in self.expected.edges, "an edge of another epoch"
            assert not self.edges or edge > self.edges[-1], "an edge came twice or out of order"
            self.edges.append(edge)


class Run:
    """One life, through a serve loop and through the model."""

    def __init__(self, name: str) -> None:
        self.engine_plan, self.model_plan = FaultPlan(), FaultPlan()
        self.served = Served(ENGINES[name](PLACES, self.engine_plan, self.model_plan))
        self.styled = name in ("inline", "pipelined")  # an encode on a thread takes real time
        self.contract = Contract()
        self.observed = {session_id: Observed(self.contract.sessions[session_id]) for session_id in IDS}
        for session_id in IDS:
            self.served.sink(session_id)

    def play(self, life: Sequence[Sequence[tuple[Any, ...]]]) -> None:
        with self.served:
            for commands in life:
                self.round(commands)
            self.settle()

    def round(self, commands: Sequence[tuple[Any, ...]], pumps: int = 2) -> None:
        answers: dict[str, list[Any]] = {session_id: [] for session_id in IDS}
        for kind, session_id, *arguments in commands:
            answer = self.command(kind, self.contract.sessions[session_id], *arguments)
            if answer is not None:
                answers[session_id].append(answer)
            if kind.startswith("bad"):
                pumps = 12  # past the first retry of a detach
        for session in self.contract.sessions.values():
            session.states[session.epoch].append(session.newest)
        self.served.pump(pumps)
        for session_id in IDS:
            self.compare(session_id, answers[session_id])

    def command(self, kind: str, session: Expected, *arguments: Any) -> Any:
        contract, put, session_id = self.contract, self.served.put, session.session_id
        if kind == "attach":
            put(Attach(session_id, arguments[0]))
            return contract.attach(session, arguments[0])
        if kind == "detach":
            put(Detach(session_id))
            return contract.detach(session)
        if kind == "reset":
            put(Reset(session_id, arguments[0]))
            return contract.reset(session, arguments[0])
        if kind == "active":
            put(SetActive(session_id, arguments[0]))
            return contract.set_active(session, arguments[0])
        if kind == "action":
            return self.action(session, *arguments)
        if kind == "fault":
            session.faulted = True
            plan = self.model_plan if arguments[0] == "hot" else self.engine_plan
            plan.fail(arguments[0], RuntimeError("ordered"), session_id=session_id, times=arguments[1])
            return None
        return self.bad_membership(kind, session)

    def action(self, session: Expected, edges: int, styled: bool) -> Any:
        number = self.contract.next_number()
        pushed = [self.contract.next_number() for _ in range(edges)]
        style = {"style": number} if styled and self.styled else {}
        self.served.put(Action(session.session_id, {"n": number, **style}, pushed, action_id=number))
        return self.contract.action(session, number, pushed)

    def bad_membership(self, kind: str, session: Expected) -> Any:
        session_id, epoch = session.session_id, session.epoch
        if kind == "bad attach" and not session.attached:
            self.engine_plan.fail("attach", OSError("ordered"), session_id=session_id)
            self.served.put(Attach(session_id))
            return Rejected(session_id, "", epoch=epoch)
        if kind == "bad detach" and session.attached:
            self.engine_plan.fail("detach", OSError("ordered"), session_id=session_id)
            self.served.put(Detach(session_id))
            session.attached = False
            return Failed(session_id, "OSError: ordered", fatal=True, epoch=epoch)
        return None

    def compare(self, session_id: str, answers: list[Any]) -> None:
        session, observed = self.contract.sessions[session_id], self.observed[session_id]
        events = observed.walk(self.served.items(session_id))
        if not session.faulted:
            assert [_bare(event) for event in events] == [_bare(answer) for answer in answers]
            return
        replies = [event for event in events if not isinstance(event, Failed) or event.fatal]
        fatal = sum(isinstance(event, Failed) for event in replies)
        assert len(replies) - fatal <= len(answers) <= len(replies), f"{len(answers)} messages, answers: {events}"
        self.follow(session, replies)

    def follow(self, session: Expected, replies: list[Any]) -> None:
        """A session whose own failures were ordered may have ended; the model takes over how."""
        if replies and session.attached:
            last = replies[-1]
            refused = isinstance(last, Rejected) and session.session_id not in self.served.loop.sessions
            if refused or (isinstance(last, Failed) and last.fatal):
                session.attached = False

    def settle(self) -> None:
        """Resume all sessions: the newest conditioning is in effect, and every edge has arrived."""
        self.round([("active", session_id, True) for session_id in IDS], pumps=10)
        for session_id, session in self.contract.sessions.items():
            if session.attached and not session.faulted:
                observed = self.observed[session_id]
                assert observed.age >= 0, f"{session_id} is attached and silent"
                assert observed.newest == session.newest, "the newest conditioning is not in force"
                assert observed.edges == session.edges, "edges were lost"
        assert self.served.engine.active_sessions == sum(s.attached for s in self.contract.sessions.values())


def _bare(event: Any) -> tuple[Any, ...]:
    return type(event).__name__, event.epoch, getattr(event, "active", None), getattr(event, "fatal", None)


@pytest.fixture(autouse=True)
def _quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    """Thousands of ordered failures need no log."""
    monkeypatch.setattr(logging.getLogger("realtime_engine"), "disabled", True)
    monkeypatch.setattr(logging.getLogger("realtime_engine.core.serve_loop"), "disabled", True)


@pytest.mark.parametrize("name", list(ENGINES))
@settings(
    max_examples=3 * settings().max_examples,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
@given(life=_life)
def test_random_lives_keep_the_contract(name: str, life: list[list[tuple[Any, ...]]]) -> None:
    Run(name).play(life)
