from __future__ import annotations

from realtime_engine.infra.webrtc.tiers import Tier, TierController
from realtime_engine.testing import ManualClock

FULL = 2_000_000


class Link:
    """One viewer's connection, and the estimate of a receiver that sees it full or not (as REMB does)."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.estimate = 500_000.0
        self.round_trip = 0.05

    def receive(self, sent: int) -> int:
        self.round_trip = 0.05 if sent <= self.capacity else 0.3
        if sent > self.capacity:
            self.estimate = 0.85 * self.capacity
        else:
            self.estimate = min(self.estimate * 1.08, max(1.5 * sent, self.estimate))
        return int(self.estimate)


class Room:
    """Viewers by name, a report of each every second."""

    def __init__(self, **capacities: int) -> None:
        self.clock = ManualClock()
        self.arbiter: TierController[str] = TierController(self.clock)
        self.links = {name: Link(capacity) for name, capacity in capacities.items()}
        self.seats = {name: self.arbiter.add_viewer(name) for name in capacities}
        self.moves: list[tuple[int, str, Tier]] = []
        self.second = 0

    def rate(self, name: str) -> int:
        return self.arbiter.rate(self.seats[name].tier, FULL)

    def run(self, seconds: int) -> None:
        for _ in range(seconds):
            self.second += 1
            self.clock.advance(1.0)
            for name, link in self.links.items():
                sent = self.rate(name)
                estimate = link.receive(sent)
                self.arbiter.on_round_trip(name, link.round_trip, sent)
                self.arbiter.on_estimate(name, estimate, sent)
            for name, tier in self.arbiter.decide(FULL).items():
                self.moves.append((self.second, name, tier))


def test_the_tiers_have_the_full_half_and_quarter_rate() -> None:
    arbiter: TierController[str] = TierController(ManualClock())
    assert [arbiter.rate(tier, FULL) for tier in Tier] == [2_000_000, 1_000_000, 500_000]
    assert [tier.scale for tier in Tier] == [1, 1, 2]
    assert arbiter.rate(Tier.QUARTER, 20_000) == 20_000


def test_a_single_viewer_keeps_the_full_tier_at_the_rate_of_its_link() -> None:
    room = Room(one=10_000_000)
    room.run(20)
    assert room.rate("one") == FULL
    room.links["one"].capacity = 1_000_000
    room.run(3)
    rates = []
    for _ in range(30):
        room.run(1)
        rates.append(room.rate("one"))
    assert min(rates) > 0.7e6 and sum(rates) / len(rates) < 1.15e6
    room.links["one"].capacity = 10_000_000
    room.run(7)
    assert room.rate("one") > 0.7 * FULL
    room.run(3)
    assert room.rate("one") == FULL
    assert room.moves == []


def test_a_single_viewer_with_a_very_slow_link_gets_the_small_picture_for_a_time() -> None:
    room = Room(one=10_000_000)
    room.run(2)
    room.links["one"].capacity = 300_000
    room.run(3)
    assert [move[1:] for move in room.moves] == [("one", Tier.QUARTER)]
    assert room.rate("one") <= 300_000
    room.links["one"].capacity = 10_000_000
    room.run(30)
    assert room.seats["one"].tier is Tier.FULL and room.rate("one") == FULL


def test_a_slow_viewer_moves_down_without_effect_on_others() -> None:
    room = Room(fast=10_000_000, slow=10_000_000, other=10_000_000)
    room.run(20)
    room.links["slow"].capacity = 1_100_000
    for _ in range(60):
        room.run(1)
        assert room.rate("fast") == FULL or room.seats["slow"].tier is Tier.FULL
    assert {name for _, name, _ in room.moves} == {"slow"}
    assert room.moves[0] == (21, "slow", Tier.HALF)


def test_a_much_slower_viewer_moves_down_two_tiers_at_once() -> None:
    room = Room(fast=10_000_000, slow=10_000_000)
    room.run(20)
    room.links["slow"].capacity = 600_000
    room.run(1)
    assert room.moves == [(21, "slow", Tier.QUARTER)]


def test_failing_trials_become_rare() -> None:
    room = Room(fast=10_000_000, slow=1_100_000)
    room.run(180)
    trials = [second for second, _, tier in room.moves if tier is Tier.FULL]
    gaps = [later - earlier for earlier, later in zip(trials, trials[1:], strict=False)]
    assert gaps == sorted(gaps) and gaps[0] >= 10 and gaps[-1] >= 40
    assert all(room.rate("fast") == FULL for _ in gaps)


def test_a_viewer_whose_link_has_recovered_moves_up_again() -> None:
    room = Room(fast=10_000_000, slow=600_000)
    room.run(10)
    assert room.seats["slow"].tier is Tier.QUARTER
    room.links["slow"].capacity = 10_000_000
    room.run(25)
    assert [tier for _, _, tier in room.moves][-2:] == [Tier.HALF, Tier.FULL]
    assert room.rate("slow") == FULL


def test_a_slightly_slower_viewer_stays_and_lowers_the_rate_a_little() -> None:
    room = Room(fast=10_000_000, nearly=1_950_000)
    rates = []
    for _ in range(60):
        room.run(1)
        rates.append(room.rate("fast"))
    assert min(rates) >= 0.75 * FULL
    assert "fast" not in {name for _, name, _ in room.moves}


def test_the_last_viewer_gets_the_full_tier_at_its_own_rate() -> None:
    room = Room(fast=10_000_000, slow=700_000)
    room.run(10)
    del room.links["fast"]
    room.arbiter.remove_viewer("fast")
    room.run(60)
    assert room.seats["slow"].tier is Tier.FULL
    assert 450_000 < room.rate("slow") < 1_200_000


def test_loss_moves_a_viewer_down_too() -> None:
    room = Room(fast=10_000_000, lossy=10_000_000)
    for _ in range(4):
        room.run(1)
        room.arbiter.on_loss("lossy", 0.3, room.rate("lossy"))
    room.run(1)
    assert room.seats["lossy"].tier is not Tier.FULL and room.rate("fast") == FULL


def test_reports_of_removed_viewers_are_ignored() -> None:
    arbiter: TierController[str] = TierController(ManualClock())
    arbiter.add_viewer("one")
    arbiter.remove_viewer("one")
    arbiter.remove_viewer("one")
    arbiter.on_estimate("one", 1000, 1_000_000)
    arbiter.on_loss("one", 0.5, 1_000_000)
    arbiter.on_round_trip("one", 0.5, 1_000_000)
    assert arbiter.decide(FULL) == {}
