"""When a row may sit out for an encode: policy over integers, no tensors."""

from __future__ import annotations

_EARNED_PER_CHUNK = 1
_PRICE_OF_SITTING_OUT = 5
_MOST_SAVED = 2 * _PRICE_OF_SITTING_OUT
_DEEPEST_DEBT = 60 * _PRICE_OF_SITTING_OUT


class SitOutBudget:
    """Keeps a row whose heavy value never rests at five chunks for each step that it sits out.

    Each chunk earns a fifth of a step out, up to two saved ones, so a single change is encoded at once, and so is the
    next; a value that changes with every tick waits, and then the newest is encoded. An encode of more than 60 steps is
    charged as 60, so that after it the row does not wait for ever.
    """

    __slots__ = ("_credit",)

    def __init__(self) -> None:
        self._credit = _MOST_SAVED

    @property
    def allows(self) -> bool:
        """Whether the row may sit out for a new encode now."""
        return self._credit >= _PRICE_OF_SITTING_OUT

    def produced(self) -> None:
        """The row made a chunk."""
        if self._credit < _MOST_SAVED:
            self._credit += _EARNED_PER_CHUNK

    def sat_out(self) -> None:
        """The row was left out of a step."""
        self._credit = max(self._credit - _PRICE_OF_SITTING_OUT, -_DEEPEST_DEBT)
