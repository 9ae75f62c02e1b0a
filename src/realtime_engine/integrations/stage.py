"""What the stage models of this folder share."""

from __future__ import annotations

from collections.abc import Callable

from ..core.lanes import Lane
from ..core.stages import StageBatch


class LaneStage:
    """A stage out of a lane and what is done on it."""

    def __init__(self, lane: Lane, work: Callable[[StageBatch], None]) -> None:
        self.lane = lane
        self._work = work

    def __call__(self, batch: StageBatch) -> None:
        self._work(batch)


def session_in(batch: StageBatch, row: int) -> str:
    """The session in a row that takes part."""
    session_id = batch.session_at(row)
    assert session_id is not None, f"row {row} takes no part in this batch"
    return session_id
