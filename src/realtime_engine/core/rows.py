"""Rows of a batched engine, the plan of one step, and the encodes of heavy values."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from .lanes import DONE, Completion, InlineLane, Lanes, error_of, submit
from .stages import Stage, StageBatch, run_stages

_CREDIT_PER_CHUNK = 1
_SKIP_COST = 5
_MAX_CREDIT = 2 * _SKIP_COST
_MAX_DEBT = 60 * _SKIP_COST
_MAX_DEFERRED_EVENTS = 4096


class EncodeSkipBudget:
    """Limits a row whose heavy value changes all the time to one skipped step for every five chunks.

    Each chunk earns a fifth of a skip, up to two. So one change is encoded at once, and so is the next; of a value that
    changes with every tick, the newest is encoded when the budget allows it. An encode longer than 60 steps is charged
    as 60, which bounds the wait after it.
    """

    __slots__ = ("_credit",)

    def __init__(self) -> None:
        self._credit = _MAX_CREDIT

    @property
    def allows(self) -> bool:
        """Whether the row may skip steps for a new encode now."""
        return self._credit >= _SKIP_COST

    def record_chunk(self) -> None:
        """The row made a chunk."""
        if self._credit < _MAX_CREDIT:
            self._credit += _CREDIT_PER_CHUNK

    def record_skip(self) -> None:
        """The row was left out of a step."""
        self._credit = max(self._credit - _SKIP_COST, -_MAX_DEBT)


class Row:
    """One session's place in the batch.

    Attributes:
        seeded: the model has given it its first state.
        finished: its rollout has ended; it takes no part until it is seeded again.
        age: chunks begun since it was seeded.
        applied: heavy values in effect.
        encode: the encode under way.
        encode_failed: the last encode failed; it is repeated before the row takes part again.
        deferred_events: edges that arrived while the row took no part.
        budget: made at the first change of a heavy value.
    """

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
        "deferred_events",
        "budget",
    )

    def __init__(self, index: int, session_id: str, context: Mapping[str, Any]) -> None:
        self.index = index
        self.session_id = session_id
        self.context = context
        self.seeded = False
        self.finished = False
        self.age = 0
        self.applied: dict[str, Any] = {}
        self.encode: RowEncode | None = None
        self.encode_failed = False
        self.deferred_events: list[Any] = []
        self.budget: EncodeSkipBudget | None = None

    def with_applied(self, given: Mapping[str, Any], heavy_keys: Collection[str]) -> dict[str, Any]:
        """The conditioning of a step, with the heavy values in effect in place of those that are not encoded yet."""
        applied = self.applied
        return {
            key: applied[key] if key in heavy_keys else value
            for key, value in given.items()
            if key not in heavy_keys or key in applied
        }

    def with_deferred_events(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """The conditioning of a step, with the edges that arrived before it."""
        return {**given, "events": (*self.deferred_events, *given.get("events", ()))}


@dataclass(eq=False, slots=True)
class RowEncode:
    """Rows in one run of ENCODE, each with its heavy values after it.

    Attributes:
        wanted: row -> values; without rows that were removed during the run.
        is_alone: whether the run has one row, whose failure it is if the run fails.
        completion: the run.
    """

    wanted: dict[Row, dict[str, Any]]
    is_alone: bool
    completion: Completion = DONE


@dataclass(eq=False, slots=True)
class StepPlan:
    """Which rows take part in one step, and with what. Has no effect on the rows before :meth:`commit`.

    Attributes:
        batch: for the stages.
        cohort: rows that take part.
        changed: row -> heavy values to encode.
        differing: rows of the cohort whose given heavy values were not in effect when the plan was made.
        deferred_events: edges of rows that take no part.
    """

    batch: StageBatch
    cohort: list[Row] = field(default_factory=list)
    changed: dict[Row, dict[str, Any]] = field(default_factory=dict)
    differing: list[Row] = field(default_factory=list)
    deferred_events: list[tuple[Row, Sequence[Any]]] = field(default_factory=list)

    def commit(self) -> None:
        """HOT has succeeded: advance the rows of the cohort and store the edges of the others."""
        for row in self.cohort:
            row.age += 1
            if row.deferred_events:
                row.deferred_events = []
            if row.budget is not None:
                row.budget.record_chunk()
        if self.batch.finished:
            for row in self.cohort:
                row.finished = row.index in self.batch.finished
        for row, events in self.deferred_events:
            row.deferred_events.extend(events)
            del row.deferred_events[:-_MAX_DEFERRED_EVENTS]


class PendingEncodes:
    """The encodes of one engine that are under way. A failure belongs to its row alone.

    Args:
        stages: the ENCODE stages.
        empty_slots: row -> ``None``, for every row of the engine.
        skips_steps: a row takes no part in steps during its encode (heavy policy ``"sit_out"``).
    """

    def __init__(self, stages: list[Stage], empty_slots: Mapping[int, str | None], *, skips_steps: bool) -> None:
        self._stages = stages
        self._empty_slots = dict(empty_slots)
        self._skips_steps = skips_steps
        self._started: list[RowEncode] = []

    def __bool__(self) -> bool:
        return bool(self._started)

    def remove(self, row: Row) -> None:
        """A row is released; its encode has ended."""
        if row.encode is not None:
            del row.encode.wanted[row]

    def start(
        self,
        lanes: Lanes,
        wanted: dict[Row, dict[str, Any]],
        after: Sequence[Completion],
        failures: dict[str, BaseException],
    ) -> None:
        """Encode the wanted heavy values of some rows in one batch, once the work in ``after`` has ended."""
        slots = self._empty_slots.copy()
        slots.update((row.index, row.session_id) for row in wanted)
        conditioning: dict[str, Mapping[str, Any]] = {row.session_id: dict(values) for row, values in wanted.items()}
        ages = {row.index: row.age for row in wanted}
        batch = StageBatch(slots, conditioning, set(conditioning), ages)
        completion = submit(lanes.encode, partial(run_stages, self._stages, batch), after)
        encode = RowEncode(wanted, is_alone=len(wanted) == 1, completion=completion)
        self._started.append(encode)
        for row in wanted:
            row.encode = encode
            if self._skips_steps and row.budget is not None:
                row.budget.record_skip()
        if isinstance(lanes.encode, InlineLane):
            self._complete(lanes, encode, failures)

    def resolve(self, lanes: Lanes, failures: dict[str, BaseException]) -> None:
        """Put the values of encodes that have ended in effect."""
        for encode in list(self._started):
            if encode.completion.done():
                self._complete(lanes, encode, failures)

    def _complete(self, lanes: Lanes, encode: RowEncode, failures: dict[str, BaseException]) -> None:
        """Put an encode's values in effect. One that failed is its row's failure, or is repeated for each row alone."""
        error = error_of(encode.completion)
        self._started.remove(encode)
        for row, wanted in list(encode.wanted.items()):
            row.encode = None
            if error is None:
                row.applied, row.encode_failed = wanted, False
            elif encode.is_alone:
                row.encode_failed = True
                failures[row.session_id] = error
            else:
                self.start(lanes, {row: wanted}, (), failures)
