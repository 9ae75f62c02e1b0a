"""Places in a batched engine, and what one step does with them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from .errors import call_hook
from .lanes import DONE, Completion, InlineLane, Lanes, error_of, submit
from .stages import Stage, StageBatch

_EARNED_PER_CHUNK = 1
_PRICE_OF_SITTING_OUT = 5
_MAX_SAVED = 2 * _PRICE_OF_SITTING_OUT
_MAX_DEBT = 60 * _PRICE_OF_SITTING_OUT


class EncodeSkipBudget:
    """Keeps a row whose heavy value never rests at five chunks for each step that it sits out.

    Each chunk earns a fifth of a step out, up to two saved ones, so a single change is encoded at once, and so is the
    next; a value that changes with every tick waits, and then the newest is encoded. An encode of more than 60 steps is
    charged as 60, so that after it the row does not wait for ever.
    """

    __slots__ = ("_credit",)

    def __init__(self) -> None:
        self._credit = _MAX_SAVED

    @property
    def allows(self) -> bool:
        """Whether the row may sit out for a new encode now."""
        return self._credit >= _PRICE_OF_SITTING_OUT

    def produced(self) -> None:
        """The row made a chunk."""
        if self._credit < _MAX_SAVED:
            self._credit += _EARNED_PER_CHUNK

    def sat_out(self) -> None:
        """The row was left out of a step."""
        self._credit = max(self._credit - _PRICE_OF_SITTING_OUT, -_MAX_DEBT)


_MAX_HELD_EVENTS = 4096


class Row:
    """One session's place in the arena."""

    __slots__ = (
        "index",
        "session_id",
        "context",
        "seeded",
        "finished",
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
        self.finished = False  # its rollout has ended: it takes no part until it is seeded anew
        self.age = 0
        self.applied: dict[str, Any] = {}  # heavy values in effect
        self.encode: Encode | None = None
        self.encode_failed = False  # the last one, so that it is tried again before the row goes on
        self.held_events: list[Any] = []  # edges that came while the row took no part
        self.budget: EncodeSkipBudget | None = None  # from the first heavy change on

    def with_applied(self, given: Mapping[str, Any], heavy_keys: Collection[str]) -> dict[str, Any]:
        """The conditioning of a step, with the heavy values in effect in place of those that are not encoded yet."""
        applied = self.applied
        return {
            key: applied[key] if key in heavy_keys else value
            for key, value in given.items()
            if key not in heavy_keys or key in applied
        }

    def with_held_events(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """The conditioning of a step, with the edges that came before it."""
        return {**given, "events": (*self.held_events, *given.get("events", ()))}


@dataclass(eq=False, slots=True)
class Encode:
    """Rows on their way through ENCODE, each with the heavy values that it will have."""

    wanted: dict[Row, dict[str, Any]]
    completion: Completion = DONE


@dataclass(eq=False, slots=True)
class StepPlan:
    """Who does what in one step. Nothing of it is final until HOT has ended well: then :meth:`commit`."""

    batch: StageBatch
    cohort: list[Row] = field(default_factory=list)
    changed: dict[Row, dict[str, Any]] = field(default_factory=dict)  # heavy values to encode
    differing: list[Row] = field(default_factory=list)  # given heavy values that were not in effect when it was made
    held: list[tuple[Row, Sequence[Any]]] = field(default_factory=list)  # edges of rows that take no part

    def commit(self) -> None:
        """HOT is done: its rows are a chunk older, and edges have found their place."""
        finished = self.batch.finished
        for row in self.cohort:
            row.age += 1
            if row.index in finished:
                row.finished = True
            if row.held_events:
                row.held_events = []
            if row.budget is not None:
                row.budget.produced()
        for row, events in self.held:
            row.held_events.extend(events)
            del row.held_events[:-_MAX_HELD_EVENTS]


class Encodes:
    """The encodes of one engine: started in batches, resolved when they end, each row's failure its own."""

    def __init__(self, stages: list[Stage], empty_slots: Mapping[int, str | None], *, sits_out: bool) -> None:
        self._stages = stages
        self._empty_slots = dict(empty_slots)
        self._sits_out = sits_out
        self._started: list[Encode] = []

    def __bool__(self) -> bool:
        return bool(self._started)

    def leave(self, row: Row) -> None:
        """A row is released; its lane has been drained."""
        if row.encode is not None:
            del row.encode.wanted[row]

    def start(
        self,
        lanes: Lanes,
        wanted: dict[Row, dict[str, Any]],
        after: Sequence[Completion],
        failures: dict[str, BaseException],
    ) -> None:
        """Send rows with the heavy values that they are to have through ENCODE, in one batch."""
        slots = self._empty_slots.copy()
        slots.update((row.index, row.session_id) for row in wanted)
        conditioning: dict[str, Mapping[str, Any]] = {row.session_id: dict(values) for row, values in wanted.items()}
        ages = {row.index: row.age for row in wanted}
        batch = StageBatch(slots, conditioning, set(conditioning), ages)
        encode = Encode(wanted, submit(lanes.encode, partial(run_stages, self._stages, batch), after))
        self._started.append(encode)
        for row in wanted:
            row.encode = encode
            if self._sits_out and row.budget is not None:
                row.budget.sat_out()
        if isinstance(lanes.encode, InlineLane):
            self._complete(lanes, encode, failures)

    def resolve(self, lanes: Lanes, failures: dict[str, BaseException]) -> None:
        """Put the values of finished encodes in effect; unfinished ones go on."""
        for encode in list(self._started):
            if encode.completion.done():
                self._complete(lanes, encode, failures)

    def _complete(self, lanes: Lanes, encode: Encode, failures: dict[str, BaseException]) -> None:
        """Put an encode's values in effect. One that failed is its row's failure, or is repeated for each row alone."""
        error = error_of(encode.completion)
        self._started.remove(encode)
        for row, wanted in list(encode.wanted.items()):
            row.encode = None
            if error is None:
                row.applied, row.encode_failed = wanted, False
            elif len(encode.wanted) == 1:
                row.encode_failed = True
                failures[row.session_id] = error
            else:
                self.start(lanes, {row: wanted}, (), failures)


def run_stages(stages: list[Stage], batch: StageBatch) -> None:
    """One lane's stages, in order."""
    for stage in stages:
        call_hook(stage, batch)
