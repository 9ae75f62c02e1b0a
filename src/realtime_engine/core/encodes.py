"""Rows on their way through ENCODE."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from .hooks import call_hook
from .lanes import Completion, InlineLane, Lanes, error_of, submit
from .rows import Encode, Row
from .stages import Stage, StageBatch


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
            self._note_failed_encode(lanes, encode, failures)

    def resolve(self, lanes: Lanes, failures: dict[str, BaseException]) -> None:
        """Put the values of finished encodes in effect; unfinished ones go on."""
        for encode in list(self._started):
            if encode.completion.done() and not self._note_failed_encode(lanes, encode, failures):
                self._started.remove(encode)
                for row, wanted in encode.wanted.items():
                    row.applied, row.encode, row.encode_failed = wanted, None, False

    def _note_failed_encode(self, lanes: Lanes, encode: Encode, failures: dict[str, BaseException]) -> bool:
        """If an encode failed: it is one row's failure, or is tried again for each row by itself."""
        error = error_of(encode.completion)
        if error is None:
            return False
        self._started.remove(encode)
        for row, wanted in list(encode.wanted.items()):
            row.encode = None
            if len(encode.wanted) == 1:
                row.encode_failed = True
                failures[row.session_id] = error
            else:
                self.start(lanes, {row: wanted}, (), failures)
        return True


def run_stages(stages: list[Stage], batch: StageBatch) -> None:
    """One lane's stages, in order."""
    for stage in stages:
        call_hook(stage, batch)
