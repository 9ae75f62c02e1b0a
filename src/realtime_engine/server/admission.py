"""Who may take a place: policy over counts and seconds, without a clock of its own."""

from __future__ import annotations

import math
from collections.abc import Iterable

_SOONEST_S = 1
_LATEST_S = 10


def is_full(occupied: int, capacity: int) -> bool:
    """Whether no more may come.

    ``occupied`` counts every session from the moment that it asks for its place until the engine has let go of it, so
    that two that come at once never get one place.
    """
    return occupied >= capacity


def retry_after_s(idle_for_s: Iterable[float], idle_timeout_s: float) -> int:
    """Whole seconds after which it is worth asking again: when the longest idle session would be ended, or sooner.

    Args:
        idle_for_s: for each session, seconds since somebody watched or steered it.
        idle_timeout_s: seconds after which such a session is ended.
    """
    soonest = idle_timeout_s - max(idle_for_s, default=0.0)
    return min(max(math.ceil(soonest), _SOONEST_S), _LATEST_S)
