"""Places in a batched engine, and what one step does with them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from .heavy import SitOutBudget
from .lanes import DONE, Completion
from .stages import StageBatch

_MOST_HELD_EVENTS = 4096


class Row:
    """One session's place in the arena."""

    __slots__ = (
        "index",
        "session_id",
        "context",
        "seeded",
        "age",
        "applied",
        "encode",
        "encode_failed",
        "held_events",
        "budget",
    )

    def __init__(self, index: int, session_id: str, context: Mapping[str, Any]) -> None:
        self.index = index
        self.session_id = session_id
        self.context = context
        self.seeded = False
        self.age = 0
        self.applied: dict[str, Any] = {}  # heavy values in effect
        self.encode: Encode | None = None
        self.encode_failed = False  # the last one, so that it is tried again before the row goes on
        self.held_events: list[Any] = []  # edges that came while the row took no part
        self.budget: SitOutBudget | None = None  # from the first heavy change on

    def with_held_events(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """The conditioning of a step, with the edges that came before it."""
        return {**given, "events": (*self.held_events, *given.get("events", ()))}


@dataclass(eq=False, slots=True)
class Encode:
    """Rows on their way through ENCODE, each with the heavy values that it will have."""

    wanted: dict[Row, dict[str, Any]]
    completion: Completion = DONE


@dataclass(eq=False, slots=True)
class Choice:
    """Who does what in one step. Nothing of it is final until HOT has ended well: then :meth:`commit`."""

    batch: StageBatch
    cohort: list[Row] = field(default_factory=list)
    changed: dict[Row, dict[str, Any]] = field(default_factory=dict)  # heavy values to encode
    held: list[tuple[Row, Sequence[Any]]] = field(default_factory=list)  # edges of rows that take no part

    def commit(self) -> None:
        """HOT is done: its rows are a chunk older, and edges have found their place."""
        for row in self.cohort:
            row.age += 1
            if row.held_events:
                row.held_events = []
            if row.budget is not None:
                row.budget.produced()
        for row, events in self.held:
            row.held_events.extend(events)
            del row.held_events[:-_MOST_HELD_EVENTS]
