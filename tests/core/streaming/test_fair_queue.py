"""Turns go round, by time."""

from __future__ import annotations

import pytest

from realtime_engine.core.streaming.fair_queue import MAX_DEBT, DeficitRoundRobin


class Member:
    """Who takes turns that cost ``cost``."""

    def __init__(self, cost: float) -> None:
        self.cost = cost
        self.balance = 0.0
        self.used = 0.0


def serve(turns: DeficitRoundRobin[Member], times: int) -> list[Member]:
    served = []
    for _ in range(times):
        member = turns.pop()
        turns.charge(member, member.cost)
        member.used += member.cost
        turns.add(member)
        served.append(member)
    return served


def test_equal_costs_make_a_round_robin() -> None:
    turns: DeficitRoundRobin[Member] = DeficitRoundRobin()
    members = [Member(1.0) for _ in range(5)]
    for member in members:
        turns.add(member)
    serve(turns, 100)  # the mean cost is learnt
    served = serve(turns, 50)
    assert all(set(served[start : start + 5]) == set(members) for start in range(0, 50, 5))


def test_unequal_costs_share_the_time() -> None:
    turns: DeficitRoundRobin[Member] = DeficitRoundRobin()
    members = [Member(cost) for cost in (1.0, 1.0, 2.0, 4.0)]
    for member in members:
        turns.add(member)
    serve(turns, 4000)
    used = [member.used for member in members]
    assert max(used) / min(used) < 1.3  # a plain round-robin gives 4.0


def test_one_long_turn_does_not_lock_a_member_out() -> None:
    turns: DeficitRoundRobin[Member] = DeficitRoundRobin()
    members = [Member(1.0) for _ in range(3)]
    for member in members:
        turns.add(member)
    serve(turns, 60)
    members[0].balance -= 1000.0
    assert members[0] in serve(turns, 3 * (MAX_DEBT + 2))


def test_costs_of_zero_do_not_loop_forever() -> None:
    turns: DeficitRoundRobin[Member] = DeficitRoundRobin()
    members = [Member(0.0) for _ in range(3)]
    for member in members:
        turns.add(member)
    assert set(serve(turns, 6)) == set(members)


def test_a_removed_member_is_not_served() -> None:
    turns: DeficitRoundRobin[Member] = DeficitRoundRobin()
    one, two = Member(1.0), Member(1.0)
    turns.add(one)
    turns.add(two)
    turns.discard(one)
    turns.discard(one)
    assert len(turns) == 1 and turns.pop() is two
    with pytest.raises(KeyError):
        turns.pop()
