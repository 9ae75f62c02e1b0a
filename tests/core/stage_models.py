"""A stage model that records its calls, for the tests of the batched engine."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from realtime_engine import EngineManifest, Lane, StageBatch

WAIT_S = 10.0  # how long a test waits for something that must happen


class Made(NamedTuple):
    """A chunk: all that it depends on."""

    session_id: str
    row: int
    age: int
    conditioning: dict[str, Any]
    prompt: Any


class RecordingModel:
    """Three stages over rows. ``before`` maps a hook's name to a function that is called first and may raise or block.

    ``log`` holds (hook, what it concerns) in order; optional hooks of the protocol are passed as keywords.
    """

    def __init__(
        self,
        max_sessions: int = 4,
        *,
        lanes: tuple[Lane, ...] = (Lane.ENCODE, Lane.HOT, Lane.DEFERRED),
        heavy_keys: tuple[str, ...] = ("prompt",),
        **optional_hooks: Any,
    ) -> None:
        self._manifest = EngineManifest(max_sessions, (1,), 30.0)
        self._lanes = lanes
        self.before: dict[str, Callable[[Any], None]] = {}
        self.log: list[tuple[str, Any]] = []
        self.threads: dict[str, set[int]] = {}
        self.prompts: dict[int, Any] = {}
        self.batches: list[StageBatch] = []
        self.heavy_keys = lambda: heavy_keys
        for name, hook in optional_hooks.items():
            setattr(self, name, hook)

    def manifest(self) -> EngineManifest:
        return self._manifest

    def stages(self) -> list[Any]:
        work = {Lane.ENCODE: self._encode, Lane.HOT: self._hot, Lane.DEFERRED: self._deferred}
        return [_Stage(lane, work[lane]) for lane in self._lanes]

    def seed(self, rows: Mapping[int, Mapping[str, Any]]) -> None:
        self._note("seed", rows, dict(rows))
        self.prompts.update((row, context.get("prompt")) for row, context in rows.items())

    def detach(self, row: int, session_id: str) -> None:
        self._note("detach", session_id, (row, session_id))
        self.prompts.pop(row, None)

    def calls(self, hook: str) -> list[Any]:
        return [what for name, what in self.log if name == hook]

    def _encode(self, batch: StageBatch) -> None:
        self._note("encode", batch, _sessions(batch))
        for row in batch.rows_in_order():
            self.prompts[row] = batch.conditioning[batch.slots[row]]["prompt"]

    def _hot(self, batch: StageBatch) -> None:
        self._note("hot", batch, _sessions(batch))
        self.batches.append(batch)
        batch.data["made"] = {row: self._make(batch, row) for row in batch.rows_in_order()}
        if Lane.DEFERRED not in self._lanes:
            self._decode(batch)

    def _deferred(self, batch: StageBatch) -> None:
        self._note("deferred", batch, _sessions(batch))
        self._decode(batch)

    def _decode(self, batch: StageBatch) -> None:
        for row in batch.rows_in_order():
            batch.outputs[batch.slots[row]] = batch.data["made"][row]

    def _make(self, batch: StageBatch, row: int) -> Made:
        session_id = batch.session_at(row)
        return Made(session_id, row, batch.ages[row], dict(batch.conditioning[session_id]), self.prompts[row])

    def _note(self, hook: str, argument: Any, what: Any) -> None:
        self.threads.setdefault(hook, set()).add(threading.get_ident())
        if hook in self.before:
            self.before[hook](argument)
        self.log.append((hook, what))


class _Stage:
    def __init__(self, lane: Lane, work: Callable[[StageBatch], None]) -> None:
        self.lane = lane
        self._work = work

    def __call__(self, batch: StageBatch) -> None:
        self._work(batch)


def _sessions(batch: StageBatch) -> list[str]:
    return [batch.slots[row] for row in batch.rows_in_order()]


class Gate:
    """Blocks each caller until it is opened; ``reached`` is set once there is one."""

    def __init__(self, concerns: str | None = None) -> None:
        self._concerns = concerns
        self.reached = threading.Event()
        self.opened = threading.Event()

    def __call__(self, batch: StageBatch) -> None:
        if self._concerns is None or self._concerns in batch.due:
            self.reached.set()
            assert self.opened.wait(WAIT_S), "the gate was not opened"

    def wait_until_reached(self) -> None:
        assert self.reached.wait(WAIT_S), "no call reached the gate"


class FailFor:
    """Raises for the first ``times`` batches that hold this session."""

    def __init__(self, session_id: str, error: BaseException, times: int = 1) -> None:
        self._session_id = session_id
        self._error = error
        self.times = times

    def __call__(self, batch: StageBatch) -> None:
        if self.times > 0 and self._session_id in batch.due:
            self.times -= 1
            raise self._error
