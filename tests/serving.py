"""A serve loop that runs one round at a time, and engines whose chunks hold what they were made from."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Mapping
from typing import Any

from realtime_engine import (
    Attach,
    Chunk,
    ComposedEngine,
    EngineManifest,
    Inbox,
    InboxMsg,
    Lane,
    Outbox,
    ReplicaEngine,
    StageBatch,
)
from realtime_engine.core.clock import Wakeup
from realtime_engine.core.messages import SessionEvent
from realtime_engine.core.monitor import ServeMonitor
from realtime_engine.core.serve_loop import ServeLoop, ServeOptions
from realtime_engine.testing import (
    FaultPlan,
    FaultyEngine,
    FaultyModel,
    RecordingSink,
    ScriptedChunk,
    ScriptedEngine,
)

TIMEOUT_S = 60.0


class BatonClock:
    """A clock that blocks the loop's thread at each wait until the test resumes it, so that only one of the two runs.

    Time advances only when a wait ends without an interruption, to its deadline, and when a test moves it.
    """

    def __init__(self) -> None:
        self.now = 0
        self.waits: list[int | None] = []
        self.yields = 0
        self._parked = threading.Semaphore(0)
        self._resume = threading.Semaphore(0)

    def now_ns(self) -> int:
        return self.now

    def wait(self, wakeup: Wakeup, until_ns: int | None) -> None:
        self.waits.append(until_ns)
        self._parked.release()
        self._resume.acquire()
        is_set = wakeup.wait(0)
        if not is_set and until_ns is not None:
            self.now = max(self.now, until_ns)

    def yield_now(self) -> None:
        self.yields += 1

    def ended(self) -> None:
        self._parked.release()

    def until_parked(self) -> None:
        if not self._parked.acquire(timeout=TIMEOUT_S):
            raise TimeoutError("the serve loop neither waits nor ends")

    def resume(self) -> None:
        self._resume.release()


class Served:
    """A serve loop on its thread; :meth:`pump` lets it apply the inbox, tick once and wait again."""

    def __init__(self, engine: Any, *, maxsize: int = 0, start: bool = True, **options: Any) -> None:
        self.engine = engine
        self.clock = BatonClock()
        self.inbox = Inbox(clock=self.clock)
        self.outbox = Outbox(maxsize)
        self.monitor = ServeMonitor()
        self.loop = ServeLoop(
            engine, self.inbox, self.outbox, ServeOptions(**options), clock=self.clock, monitor=self.monitor
        )
        self.sinks: dict[str, RecordingSink] = {}
        self.error: BaseException | None = None
        self.ended = False
        self._thread = threading.Thread(target=self._run, daemon=True)
        if start:
            self.start()

    def start(self) -> None:
        self._thread.start()
        self.clock.until_parked()

    def _run(self) -> None:
        try:
            self.loop.run()
        except BaseException as error:
            self.error = error
        self.ended = True
        self.clock.ended()

    def put(self, *messages: InboxMsg) -> None:
        for message in messages:
            self.sink(message.session_id)
            self.inbox.put_nowait(message)

    def pump(self, rounds: int = 1) -> None:
        for _ in range(rounds):
            assert not self.ended, f"the serve loop has ended: {self.error!r}"
            self.clock.resume()
            self.clock.until_parked()
        for sink in self.sinks.values():
            sink.drain()

    def do(self, *messages: InboxMsg) -> None:
        """Put messages and let one round pass."""
        self.put(*messages)
        self.pump()

    def stop(self) -> None:
        if not self.ended:
            self.loop.request_stop()
            self.clock.resume()
            self.clock.until_parked()
        self._thread.join(TIMEOUT_S)
        for sink in self.sinks.values():
            sink.drain()

    def __enter__(self) -> Served:
        return self

    def __exit__(self, kind: object, error: object, tb: object) -> None:
        self.stop()
        if kind is None:
            assert self.error is None, f"the serve loop ended with {self.error!r}"

    def sink(self, session_id: str) -> RecordingSink:
        if session_id not in self.sinks:
            self.sinks[session_id] = RecordingSink(self.outbox, session_id)
        return self.sinks[session_id]

    def items(self, session_id: str) -> list[Chunk | SessionEvent]:
        return self.sink(session_id).items

    def chunks(self, session_id: str) -> list[Chunk]:
        return self.sink(session_id).chunks

    def events(self, session_id: str) -> list[SessionEvent]:
        return self.sink(session_id).events


class EchoStage:
    """One lane of :class:`EchoModel`."""

    def __init__(self, lane: Lane, work: Callable[[StageBatch], None]) -> None:
        self.lane = lane
        self._work = work

    def __call__(self, batch: StageBatch) -> None:
        self._work(batch)


class EchoModel:
    """A stage model whose chunks are :class:`ScriptedChunk`, with ``style`` as its heavy key.

    Its rollouts end after ``rollout_chunks``, if given, as a stage on the lane ``ends_on`` reports.
    """

    def __init__(
        self,
        max_sessions: int = 8,
        rate_hz: float = 60.0,
        *,
        rollout_chunks: int | None = None,
        ends_on: Lane = Lane.HOT,
    ) -> None:
        self._rollout_chunks = rollout_chunks
        self._ends_on = ends_on
        self._manifest = EngineManifest(max_sessions, rate_hz=rate_hz)
        self.contexts: dict[int, dict[str, Any]] = {}
        self.seeded: list[list[int]] = []
        self.hot: list[dict[str, dict[str, Any]]] = []  # conditioning of each run of HOT

    def manifest(self) -> EngineManifest:
        return self._manifest

    def stages(self) -> list[EchoStage]:
        return [
            EchoStage(Lane.ENCODE, self._encode),
            EchoStage(Lane.HOT, self._generate),
            EchoStage(Lane.DEFERRED, self._decode),
        ]

    def heavy_keys(self) -> Collection[str]:
        return ("style",)

    def seed(self, rows: Mapping[int, Mapping[str, Any]]) -> None:
        self.seeded.append(sorted(rows))
        self.contexts.update({row: dict(context) for row, context in rows.items()})

    def detach(self, row: int, session_id: str) -> None:
        self.contexts.pop(row, None)

    def _encode(self, batch: StageBatch) -> None:
        """The encoded value stays in the conditioning, where the chunk shows it."""

    def _generate(self, batch: StageBatch) -> None:
        self.hot.append({session_id: dict(given) for session_id, given in batch.conditioning.items()})
        batch.data["made"] = {
            session_id: ScriptedChunk(
                session_id, self.contexts[row], batch.ages[row], dict(batch.conditioning[session_id])
            )
            for row in batch.rows_in_order()
            if (session_id := batch.session_at(row)) is not None
        }
        self._end_rollouts(batch, Lane.HOT)

    def _decode(self, batch: StageBatch) -> None:
        for row in batch.rows_in_order():
            session_id = batch.session_at(row)
            assert session_id is not None
            batch.outputs[session_id] = batch.data["made"][session_id]
        self._end_rollouts(batch, Lane.DEFERRED)

    def _end_rollouts(self, batch: StageBatch, lane: Lane) -> None:
        if self._rollout_chunks is not None and lane is self._ends_on:
            batch.finished.update(row for row, age in batch.ages.items() if age + 1 >= self._rollout_chunks)


def composed(max_sessions: int, plan: FaultPlan | None = None, **options: Any) -> ComposedEngine:
    model = EchoModel(max_sessions)
    return ComposedEngine(FaultyModel(model, plan) if plan is not None else model, **options)


EngineMaker = Callable[[int, FaultPlan, FaultPlan], Any]


def _scripted(size: int, engine_plan: FaultPlan, model_plan: FaultPlan) -> Any:
    return FaultyEngine(ScriptedEngine(size), engine_plan)


def _composed_maker(**options: Any) -> EngineMaker:
    def make(size: int, engine_plan: FaultPlan, model_plan: FaultPlan) -> Any:
        return FaultyEngine(composed(size, model_plan, **options), engine_plan)

    return make


def _replica_maker(*, parallel: bool) -> EngineMaker:
    def make(size: int, engine_plan: FaultPlan, model_plan: FaultPlan) -> Any:
        children = ReplicaEngine(lambda: composed(1, model_plan, pipeline=False), max_sessions=size, parallel=parallel)
        return FaultyEngine(children, engine_plan)

    return make


COMPOSED_OPTIONS: dict[str, dict[str, Any]] = {
    "inline": {"pipeline": False},
    "pipelined": {"pipeline": True},
    "threaded": {"pipeline": False, "lanes": "thread"},
    "threaded-pipelined": {"pipeline": True, "lanes": "thread"},
}

ENGINES: dict[str, EngineMaker] = {
    "scripted": _scripted,
    "replica": _replica_maker(parallel=False),
    "replica-parallel": _replica_maker(parallel=True),
    **{name: _composed_maker(**options) for name, options in COMPOSED_OPTIONS.items()},
}


def _finishing_composed(ends_on: Lane, options: dict[str, Any]) -> Callable[[int, int], Any]:
    def make(size: int, rollout_chunks: int) -> Any:
        return ComposedEngine(EchoModel(size, rollout_chunks=rollout_chunks, ends_on=ends_on), **options)

    return make


# engines whose rollouts end: (sessions, chunks of a rollout) -> engine
FINISHING_ENGINES: dict[str, Callable[[int, int], Any]] = {
    "scripted": lambda size, chunks: ScriptedEngine(size, rollout_chunks=chunks),
    "replica": lambda size, chunks: ReplicaEngine(
        lambda: ComposedEngine(EchoModel(1, rollout_chunks=chunks), pipeline=True), max_sessions=size
    ),
    **{
        f"{name}-{lane.name.lower()}": _finishing_composed(lane, options)
        for name, options in COMPOSED_OPTIONS.items()
        for lane in (Lane.HOT, Lane.DEFERRED)
    },
}


def attach_all(served: Served, *session_ids: str) -> None:
    """Attach in one round, and pass the warm-up of a pipeline in the next."""
    served.do(*(Attach(session_id, {"seed": number}) for number, session_id in enumerate(session_ids)))
    served.pump()
