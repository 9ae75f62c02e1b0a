"""Where sessions wait for a stage, and what stages share."""

from __future__ import annotations

from .graph import StageTable
from .progress import StageProgress
from .timings import Hold
from .turns import DeficitRoundRobin
from .work import ActorLane


class ResourceGroup:
    """Places that several stages share; ``stages`` are those stages."""

    __slots__ = ("capacity", "in_use", "stages")

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.in_use = 0
        self.stages: list[int] = []

    def after(self, index: int) -> list[int]:
        """The stages, the one behind ``index`` first: who gets the place that ``index`` gives back."""
        return [i for i in self.stages if i > index] + [i for i in self.stages if i <= index]


class StageDesk:
    """Where sessions wait for a stage."""

    __slots__ = ("table", "lane", "group", "turns", "freed")

    def __init__(self, table: StageTable, lane: ActorLane, group: ResourceGroup | None) -> None:
        self.table = table
        self.lane = lane
        self.group = group
        self.turns: DeficitRoundRobin[StageProgress] = DeficitRoundRobin()
        self.freed: tuple[int, ...] = (table.index,)  # whom an answer here lets go on

    def hold(self) -> int:
        """What keeps the stage from taking anything; ``SCHEDULER_ADMISSION`` when nothing does."""
        if len(self.lane.works) >= self.table.spec.max_in_flight_global or self.lane.backlog:
            return Hold.STAGE_CAPACITY
        if self.group is not None and self.group.in_use >= self.group.capacity:
            return Hold.RESOURCE_GROUP
        return Hold.SCHEDULER_ADMISSION
