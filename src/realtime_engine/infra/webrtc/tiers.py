"""Which viewers share an encode: at most three rates for one picture, so that a slow viewer slows nobody else.

Who is alone has the full tier at whatever rate it can take, and the small picture only when that is very little. Among
several, one that can take less than most of its tier's rate moves down at once. An estimate never proves a higher rate
(see :mod:`.downlink`), so moving up is a trial after a quiet time, which doubles with each trial that fails.
"""

from __future__ import annotations

import enum
from collections.abc import Hashable
from typing import Generic, TypeVar

from ...core.clock import NS_PER_S, Clock
from .bandwidth import Downlink

Key = TypeVar("Key", bound=Hashable)

MIN_RATE = 50_000
_STAY = 0.75  # of a tier's rate: who can take less than this slows the others down too much
_STAY_ALONE = 3 / 16  # of the full rate
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
        """What the full bitrate is divided by."""
        return {Tier.FULL: 1, Tier.HALF: 2, Tier.QUARTER: 4}[self]

    @property
    def scale(self) -> int:
        """What both sides of the picture are divided by."""
        return 2 if self is Tier.QUARTER else 1


_DOWNWARDS = (Tier.FULL, Tier.HALF, Tier.QUARTER)


class TierAssignment:
    """One viewer's place; ``tier`` is set by :meth:`TierController.decide`."""

    def __init__(self, now_ns: int) -> None:
        self.tier = Tier.FULL
        self.downlink = Downlink()
        self._moved_ns = now_ns
        self._trial = False
        self._quiet_ns = _FIRST_QUIET_NS

    def move_down(self, tier: Tier, now_ns: int) -> None:
        if self._trial and now_ns - self._moved_ns < _TRIAL_NS:
            self._quiet_ns = min(2 * self._quiet_ns, _MAX_QUIET_NS)
        else:
            self._quiet_ns = _FIRST_QUIET_NS
        self._move(tier, now_ns, trial=False)

    def move_up(self, tier: Tier, now_ns: int) -> None:
        self.downlink.forget()
        self._move(tier, now_ns, trial=True)

    def is_quiet(self, now_ns: int) -> bool:
        """Whether nothing has spoken of congestion for so long that a higher tier may be tried."""
        return now_ns - max(self._moved_ns, self.downlink.congested_ns or 0) >= self._quiet_ns

    def _move(self, tier: Tier, now_ns: int, *, trial: bool) -> None:
        self.tier = tier
        self._moved_ns = now_ns
        self._trial = trial


class TierController(Generic[Key]):
    """Seats the viewers of one codec. Knows neither packets nor pictures."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._seats: dict[Key, TierAssignment] = {}

    def join(self, key: Key) -> TierAssignment:
        """A new viewer, in the full tier."""
        seat = self._seats[key] = TierAssignment(self._clock.now_ns())
        return seat

    def leave(self, key: Key) -> None:
        self._seats.pop(key, None)

    def limit(self, key: Key) -> int | None:
        """Bits per second that a viewer can take, ``None`` if that is not known."""
        return self._seats[key].downlink.limit if key in self._seats else None

    def hear_estimate(self, key: Key, bits_per_second: int, sent: int) -> None:
        if key in self._seats:
            self._seats[key].downlink.hear_estimate(self._clock.now_ns(), bits_per_second, sent)

    def hear_loss(self, key: Key, share: float, sent: int) -> None:
        if key in self._seats:
            self._seats[key].downlink.hear_loss(self._clock.now_ns(), share, sent)

    def hear_round_trip(self, key: Key, seconds: float, sent: int) -> None:
        if key in self._seats:
            self._seats[key].downlink.hear_round_trip(self._clock.now_ns(), seconds, sent)

    def decide(self, full_rate: int) -> dict[Key, Tier]:
        """Move whom the reports ask to move; returns the viewers that moved.

        Args:
            full_rate: bits per second of the full tier.
        """
        now_ns = self._clock.now_ns()
        moved = {}
        for key, seat in self._seats.items():
            before = seat.tier
            self._place(seat, full_rate, now_ns)
            if seat.tier is not before:
                moved[key] = seat.tier
        return moved

    def rate(self, tier: Tier, full_rate: int) -> int:
        """Bits per second for the encoder of ``tier``: what all of its viewers can take."""
        limits = [seat.downlink.limit for seat in self._seats.values() if seat.tier is tier]
        most = full_rate // tier.divisor
        least = max(int(self._least(tier, full_rate)), MIN_RATE)
        return max(min([most, *(limit for limit in limits if limit is not None)]), min(least, full_rate))

    @property
    def _alone(self) -> bool:
        return len(self._seats) == 1

    def _least(self, tier: Tier, full_rate: int) -> float:
        """What a viewer must be able to take to stay in ``tier``."""
        if tier is Tier.QUARTER:
            return 0
        return full_rate * (_STAY_ALONE if self._alone else _STAY / tier.divisor)

    def _place(self, seat: TierAssignment, full_rate: int, now_ns: int) -> None:
        limit = seat.downlink.limit
        if limit is not None and limit < self._least(seat.tier, full_rate):
            seat.move_down(self._lower(seat.tier, limit, full_rate), now_ns)
        elif seat.tier is not Tier.FULL and seat.is_quiet(now_ns):
            seat.move_up(self._higher(seat.tier), now_ns)

    def _lower(self, tier: Tier, limit: int, full_rate: int) -> Tier:
        lower = _DOWNWARDS[_DOWNWARDS.index(tier) + 1 :]
        return next(tier for tier in lower if limit >= self._least(tier, full_rate))

    def _higher(self, tier: Tier) -> Tier:
        return Tier.FULL if self._alone else _DOWNWARDS[_DOWNWARDS.index(tier) - 1]
