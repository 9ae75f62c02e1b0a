from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from realtime_engine.core.clock import NS_PER_S
from realtime_engine.server.admission.clients import Client
from realtime_engine.server.admission.waiting_line import LineFullError, Ticket, TicketState, WaitingLine
from realtime_engine.testing import ManualClock

RESERVATION_S, ABSENCE_S = 10.0, 30.0


class Line:
    """A line with a clock, and clients a, b, c ..."""

    def __init__(self, limit: int = 100) -> None:
        self.clock = ManualClock()
        self.line = WaitingLine(self.clock, limit=limit, reservation_s=RESERVATION_S, absence_s=ABSENCE_S)

    def join(self, name: str, free: int = 0) -> Ticket:
        return self.line.join(Client(name, ""), free)

    def advance(self, seconds: float) -> None:
        self.clock.advance(seconds)

    def states(self) -> dict[str, str]:
        return {ticket.client.key: ticket.state.value for ticket in self.line.tickets}


def test_places_are_reserved_from_the_head_on() -> None:
    line = Line()
    for name in "abc":
        line.join(name)
    line.line.review(2)
    assert line.states() == {"a": "reserved", "b": "reserved", "c": "waiting"}
    line.line.review(2)
    assert line.states()["c"] == "waiting", "a review reserves nothing twice"
    assert (line.line.reserved, line.line.waiting) == (2, 1)


def test_a_client_keeps_its_ticket() -> None:
    line = Line()
    first = line.join("a")
    line.join("b")
    assert line.join("a") is first
    assert line.states() == {"a": "waiting", "b": "waiting"}


def test_a_place_is_claimed_once() -> None:
    line = Line()
    ticket = line.join("a")
    assert not line.line.claim(ticket)
    line.line.review(1)
    assert line.line.claim(ticket) and not line.line.claim(ticket)
    assert line.line.ended_state(ticket.id) is TicketState.CLAIMED
    assert line.line.find(ticket.id) is None


def test_a_reservation_that_is_not_claimed_passes_to_the_next() -> None:
    line = Line()
    first, second = line.join("a"), line.join("b")
    line.line.on_stream(second, opened=True)
    line.line.review(1)
    assert line.line.next_change_ns() == RESERVATION_S * NS_PER_S
    line.advance(RESERVATION_S)
    line.line.review(1)
    assert first.state is TicketState.EXPIRED
    assert line.states() == {"b": "reserved"}


def test_the_ticket_of_an_absent_client_is_dropped() -> None:
    line = Line()
    asking, streaming, gone = line.join("a"), line.join("b"), line.join("c")
    line.line.on_stream(streaming, opened=True)
    line.advance(ABSENCE_S - 1)
    line.line.touch(asking)
    line.advance(1)
    line.line.review(0)
    assert gone.state is TicketState.ABSENT
    assert line.states() == {"a": "waiting", "b": "waiting"}
    line.line.on_stream(streaming, opened=False)
    line.advance(ABSENCE_S)
    line.line.review(0)
    assert line.states() == {}
    assert line.line.next_change_ns() is None


def test_a_full_line_admits_whom_a_place_is_left_for() -> None:
    line = Line(limit=1)
    line.join("a")
    with pytest.raises(LineFullError):
        line.join("b")
    assert line.join("a").client.key == "a"
    none = Line(limit=0)
    none.join("a", free=1)
    none.line.review(1)
    with pytest.raises(LineFullError):
        none.join("b", free=1)


def test_a_restored_ticket_is_the_next() -> None:
    line = Line()
    first = line.join("a")
    for name in "bc":
        line.join(name)
    line.line.review(2)
    assert line.line.claim(first)
    newer = line.join("a")
    line.line.restore(first)
    assert [ticket.client.key for ticket in line.line.tickets] == ["b", "a", "c"]
    assert (newer.state, first.state) == (TicketState.LEFT, TicketState.WAITING)
    line.line.review(2)
    assert line.states() == {"b": "reserved", "a": "reserved", "c": "waiting"}
    assert line.line.ended_state(first.id) is None


def test_leaving_is_idempotent() -> None:
    line = Line()
    ticket = line.join("a")
    line.line.leave(ticket)
    line.line.leave(ticket)
    assert len(line.line) == 0


class LineMachine(RuleBasedStateMachine):
    """Clients come, ask, vanish and claim in any order; the rules of a fair line hold at every moment."""

    CAPACITY = 3

    @initialize()
    def begin(self) -> None:
        self.line = Line(limit=6)
        self.occupied = 0
        self.order: list[Ticket] = []  # all tickets ever issued, as they were issued
        self.served: list[Ticket] = []

    @property
    def free(self) -> int:
        return self.CAPACITY - self.occupied

    @rule(name=st.sampled_from("abcdefgh"))
    def join(self, name: str) -> None:
        known = {ticket.client.key for ticket in self.line.line.tickets}
        try:
            ticket = self.line.join(name, self.free)
        except LineFullError:
            assert name not in known and self.line.line.waiting >= 6 and self.free <= self.line.line.reserved
            return
        assert (name in known) == any(ticket is issued for issued in self.order)
        if name not in known:
            self.order.append(ticket)

    @rule(data=st.data(), opened=st.booleans())
    def stream(self, data: st.DataObject, opened: bool) -> None:
        tickets = [ticket for ticket in self.line.line.tickets if opened or ticket.streams]
        if tickets:
            self.line.line.on_stream(data.draw(st.sampled_from(tickets)), opened)

    @rule(data=st.data())
    def touch(self, data: st.DataObject) -> None:
        if self.line.line.tickets:
            self.line.line.touch(data.draw(st.sampled_from(self.line.line.tickets)))

    @rule(data=st.data())
    def claim(self, data: st.DataObject) -> None:
        if not self.order:
            return
        ticket = data.draw(st.sampled_from(self.order))
        reserved = ticket.state is TicketState.RESERVED
        assert self.line.line.claim(ticket) == reserved
        if reserved:
            self.occupied += 1
            self.served.append(ticket)

    @rule(data=st.data())
    def leave(self, data: st.DataObject) -> None:
        if self.order:
            self.line.line.leave(data.draw(st.sampled_from(self.order)))

    @precondition(lambda self: self.occupied)
    @rule()
    def end_session(self) -> None:
        self.occupied -= 1

    @rule(seconds=st.sampled_from([0.5, 5.0, 10.0, 31.0]))
    def pass_time(self, seconds: float) -> None:
        self.line.advance(seconds)

    @rule()
    def review(self) -> None:
        self.line.line.review(self.free)
        reserved = [ticket for ticket in self.line.line.tickets if ticket.state is TicketState.RESERVED]
        assert len(reserved) == min(self.free, len(self.line.line))
        assert all(ticket.deadline_ns > self.line.clock.now_ns() for ticket in reserved if ticket.deadline_ns)
        next_ns = self.line.line.next_change_ns()
        assert next_ns is None or next_ns > self.line.clock.now_ns(), "a review leaves nothing overdue"

    @invariant()
    def no_place_is_given_twice(self) -> None:
        assert self.line.line.reserved <= self.free
        assert self.line.line.reserved == sum(t.deadline_ns is not None for t in self.line.line.tickets)

    @invariant()
    def the_order_of_issue_is_kept(self) -> None:
        numbers = [self.order.index(ticket) for ticket in self.line.line.tickets]
        assert numbers == sorted(numbers)
        states = [ticket.state for ticket in self.line.line.tickets]
        assert states == sorted(states, key=lambda state: state is TicketState.WAITING)

    @invariant()
    def a_client_has_one_ticket(self) -> None:
        keys = [ticket.client.key for ticket in self.line.line.tickets]
        assert len(keys) == len(set(keys))


LineMachine.TestCase.settings = settings(max_examples=60, stateful_step_count=60)
test_the_line_is_fair = LineMachine.TestCase


@given(names=st.lists(st.sampled_from("abcdef"), min_size=1, max_size=20), places=st.integers(1, 3))
def test_present_clients_are_served_in_the_order_of_arrival(names: list[str], places: int) -> None:
    line = Line()
    tickets = {name: line.join(name) for name in names}
    for ticket in tickets.values():
        line.line.on_stream(ticket, opened=True)
    served = []
    while line.line.tickets:
        line.line.review(places)
        for ticket in line.line.tickets[:places]:
            assert line.line.claim(ticket)
            served.append(ticket.client.key)
    assert served == list(dict.fromkeys(names))
