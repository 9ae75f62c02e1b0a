"""Which packets a viewer was sent lately, and what to do when it asks for some again."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import NamedTuple

from ...core.clock import NS_PER_S, Clock

KEPT = 128  # how many packets the sender can send again
_STALE_NS = NS_PER_S // 2
_LEAST_ROUND_TRIP_NS = NS_PER_S // 25  # with what may have queued up since it was measured
_HALF = 0x8000


class Verdict(NamedTuple):
    """What a request (generic NACK, RFC 4585) comes to.

    Attributes:
        again: sequence numbers to send again. lost: it asks for a packet that is needed and not sent again.
    """

    again: list[int]
    lost: bool


class SentPackets:
    """Remembers the packets of one viewer by their sequence number.

    A packet is not sent again when the sender has forgotten it, when it is older than half a second, which would only
    replay what has passed, or when a keyframe has been sent since; nor when it may be on its way: a receiver that asks
    for all that it misses each time that it misses more would fill a bottleneck with repetitions.

    Attributes:
        round_trip_s: how long a packet and its answer take, in seconds.
    """

    def __init__(self, clock: Clock, kept: int = KEPT) -> None:
        self._clock = clock
        self._times: deque[int] = deque(maxlen=kept)
        self._newest: int | None = None
        self._keyframe: int | None = None
        self._again_ns: dict[int, int] = {}
        self.round_trip_s = 0.0

    def note(self, sequence_number: int, *, begins_keyframe: bool = False) -> bool:
        """A packet is sent. False when it is one that was sent before."""
        if self._newest is not None and not _is_after(sequence_number, self._newest):
            return False
        self._newest = sequence_number
        self._times.append(self._clock.now_ns())
        if begins_keyframe:
            self._keyframe = sequence_number
        elif self._keyframe is not None and _distance(self._keyframe, sequence_number) >= _HALF // 2:
            self._keyframe = None  # before the numbers wrap
        return True

    def judge(self, wanted: Iterable[int]) -> Verdict:
        """Decide on sequence numbers that the viewer misses. When one is lost, none is worth sending again."""
        again = []
        for number in wanted:
            if self._newest is None or _is_after(number, self._newest) or self._is_superseded(number):
                continue
            if self._is_lost(number, self._newest):
                return Verdict([], True)
            again.append(number)
        return Verdict(self._not_on_their_way(again), False)

    def _not_on_their_way(self, numbers: list[int]) -> list[int]:
        now_ns = self._clock.now_ns()
        way_ns = max(round(self.round_trip_s * NS_PER_S), _LEAST_ROUND_TRIP_NS)
        self._again_ns = {number: at_ns for number, at_ns in self._again_ns.items() if now_ns - at_ns < way_ns}
        again = [number for number in numbers if number not in self._again_ns]
        self._again_ns.update(dict.fromkeys(again, now_ns))
        return again

    def _is_superseded(self, number: int) -> bool:
        return self._keyframe is not None and number != self._keyframe and not _is_after(number, self._keyframe)

    def _is_lost(self, number: int, newest: int) -> bool:
        behind = _distance(number, newest)
        return behind >= len(self._times) or self._clock.now_ns() - self._times[-1 - behind] > _STALE_NS


def _distance(earlier: int, later: int) -> int:
    return (later - earlier) & 0xFFFF


def _is_after(number: int, other: int) -> bool:
    return 0 < _distance(other, number) < _HALF
