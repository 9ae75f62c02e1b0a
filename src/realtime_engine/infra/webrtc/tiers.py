"""Assigns viewers to tiers, each with an encoder of its own, so that a slow viewer does not affect the others.

A single viewer has the full tier at whatever rate it can receive, and the small picture only when that is very low. Of
several viewers, one that can receive less than most of its tier's rate moves down at once. An estimate never proves
that a higher rate is possible (see :mod:`.bandwidth`), so moving up is a trial, after a time without congestion that
doubles with each failed trial.
"""

from __future__ import annotations

import enum
from collections.abc import Hashable
from typing import Generic, TypeVar

from ...core.clock import NS_PER_S, Clock
from .bandwidth import BandwidthEstimator

Key = TypeVar("Key", bound=Hashable)

MIN_RATE = 50_000
_STAY = 0.75  # of a tier's rate: a viewer with less slows the others down too much
_STAY_SINGLE = 3 / 16  # of the full rate
_FIRST_QUIET_NS = 5 * NS_PER_S
_MAX_QUIET_NS = 80 * NS_PER_S
_TRIAL_NS = 10 * NS_PER_S


class Tier(enum.Enum):
    """A share of a session's bitrate; the value is its name in metrics."""

    FULL = "full"
    HALF = "half"
    QUARTER = "quarter"

    @property
    def divisor(self) -> int:
        """Divisor of the full bitrate."""
        return {Tier.FULL: 1, Tier.HALF: 2, Tier.QUARTER: 4}[self]

    @property
    def scale(self) -> int:
        """Divisor of both sides of the picture."""
        return 2 if self is Tier.QUARTER else 1


_DOWNWARDS = (Tier.FULL, Tier.HALF, Tier.QUARTER)


class TierAssignment:
    """One viewer's tier and bandwidth.

    Attributes:
        tier: set by :meth:`TierController.decide`.
        bandwidth: what the viewer can receive.
    """

    def __init__(self, now_ns: int) -> None:
        self.tier = Tier.FULL
        self.bandwidth = BandwidthEstimator()
        self._moved_ns = now_ns
        self._trial = False
        self._quiet_ns = _FIRST_QUIET_NS

    def move_down(self, tier: Tier, now_ns: int) -> None:
        """Assign a lower tier; the next trial is delayed further if a trial has just failed."""
        if self._trial and now_ns - self._moved_ns < _TRIAL_NS:
            self._quiet_ns = min(2 * self._quiet_ns, _MAX_QUIET_NS)
        else:
            self._quiet_ns = _FIRST_QUIET_NS
        self._move(tier, now_ns, trial=False)

    def move_up(self, tier: Tier, now_ns: int) -> None:
        """Assign a higher tier, as a trial."""
        self.bandwidth.reset()
        self._move(tier, now_ns, trial=True)

    def is_quiet(self, now_ns: int) -> bool:
        """Whether there was no congestion for long enough to try a higher tier."""
        return now_ns - max(self._moved_ns, self.bandwidth.congested_ns or 0) >= self._quiet_ns

    def _move(self, tier: Tier, now_ns: int, *, trial: bool) -> None:
        self.tier = tier
        self._moved_ns = now_ns
        self._trial = trial


class TierController(Generic[Key]):
    """Assigns the viewers of one codec to tiers. Pure policy: it sees neither packets nor pictures.

    Args:
        clock: stamps reports and moves.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._assignments: dict[Key, TierAssignment] = {}

    def add_viewer(self, key: Key) -> TierAssignment:
        """Add a viewer, in the full tier."""
        assignment = self._assignments[key] = TierAssignment(self._clock.now_ns())
        return assignment

    def remove_viewer(self, key: Key) -> None:
        """Remove a viewer. Idempotent; reports of removed viewers are ignored."""
        self._assignments.pop(key, None)

    def limit(self, key: Key) -> int | None:
        """Bits per second that a viewer can receive; ``None`` if unknown."""
        return self._assignments[key].bandwidth.limit if key in self._assignments else None

    def on_estimate(self, key: Key, bits_per_second: int, sent: int) -> None:
        """As :meth:`.BandwidthEstimator.on_estimate`."""
        if key in self._assignments:
            self._assignments[key].bandwidth.on_estimate(self._clock.now_ns(), bits_per_second, sent)

    def on_loss(self, key: Key, share: float, sent: int) -> None:
        """As :meth:`.BandwidthEstimator.on_loss`."""
        if key in self._assignments:
            self._assignments[key].bandwidth.on_loss(self._clock.now_ns(), share, sent)

    def on_round_trip(self, key: Key, seconds: float, sent: int) -> None:
        """As :meth:`.BandwidthEstimator.on_round_trip`."""
        if key in self._assignments:
            self._assignments[key].bandwidth.on_round_trip(self._clock.now_ns(), seconds, sent)

    def decide(self, full_rate: int) -> dict[Key, Tier]:
        """Move viewers according to their reports; returns those that moved.

        Args:
            full_rate: bits per second of the full tier.
        """
        now_ns = self._clock.now_ns()
        moved = {}
        for key, assignment in self._assignments.items():
            before = assignment.tier
            self._place(assignment, full_rate, now_ns)
            if assignment.tier is not before:
                moved[key] = assignment.tier
        return moved

    def rate(self, tier: Tier, full_rate: int) -> int:
        """Bits per second for the encoder of ``tier``: what all of its viewers can receive."""
        limits = [assignment.bandwidth.limit for assignment in self._assignments.values() if assignment.tier is tier]
        most = full_rate // tier.divisor
        least = max(int(self._least(tier, full_rate)), MIN_RATE)
        return max(min([most, *(limit for limit in limits if limit is not None)]), min(least, full_rate))

    @property
    def _is_alone(self) -> bool:
        return len(self._assignments) == 1

    def _least(self, tier: Tier, full_rate: int) -> float:
        """Bits per second that a viewer must be able to receive to stay in ``tier``."""
        if tier is Tier.QUARTER:
            return 0
        return full_rate * (_STAY_SINGLE if self._is_alone else _STAY / tier.divisor)

    def _place(self, assignment: TierAssignment, full_rate: int, now_ns: int) -> None:
        limit = assignment.bandwidth.limit
        if limit is not None and limit < self._least(assignment.tier, full_rate):
            assignment.move_down(self._lower(assignment.tier, limit, full_rate), now_ns)
        elif assignment.tier is not Tier.FULL and assignment.is_quiet(now_ns):
            assignment.move_up(self._higher(assignment.tier), now_ns)

    def _lower(self, tier: Tier, limit: int, full_rate: int) -> Tier:
        lower = _DOWNWARDS[_DOWNWARDS.index(tier) + 1 :]
        return next(tier for tier in lower if limit >= self._least(tier, full_rate))

    def _higher(self, tier: Tier) -> Tier:
        return Tier.FULL if self._is_alone else _DOWNWARDS[_DOWNWARDS.index(tier) - 1]
