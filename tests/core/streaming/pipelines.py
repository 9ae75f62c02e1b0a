"""Small graphs for these tests, and a scheduler that is driven by hand."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable

from realtime_engine.core.streaming.graph import PipelineGraph
from realtime_engine.core.streaming.scheduler import Scheduler
from realtime_engine.core.streaming.session import StreamingSession
from realtime_engine.core.streaming.specs import (
    StageOrdering,
    StreamingEdgeSpec,
    StreamingPipelineSpec,
    StreamingResourceGroupSpec,
    StreamingStageSpec,
)
from realtime_engine.core.streaming.types import StreamingSessionContext
from realtime_engine.core.streaming.work import ActorLane, StageWork
from realtime_engine.testing import ManualClock

from .manual_actors import ManualActor


def stage(stage_id: str, consumes: str, produces: str, **options: object) -> StreamingStageSpec:
    """Artifacts are words: ``stage("decode", "latent control", "frame")``."""
    return StreamingStageSpec(stage_id, frozenset(consumes.split()), frozenset(produces.split()), **options)


def unordered(stage_id: str, consumes: str, produces: str, in_flight: int) -> StreamingStageSpec:
    return stage(
        stage_id,
        consumes,
        produces,
        ordering=StageOrdering.NONE,
        max_in_flight_per_session=in_flight,
        max_in_flight_global=in_flight,
    )


def chain(
    capacity: int = 1,
    control: bool = False,
    output_capacity: int | None = None,
    group: int | None = None,
) -> StreamingPipelineSpec:
    """x -> encode -> y -> denoise -> z -> decode -> out; with a ``steer`` control at denoise; all in one group."""
    groups = () if group is None else (StreamingResourceGroupSpec("device", group),)
    shared = None if group is None else "device"
    steer = (StreamingEdgeSpec("steer", "denoise", kind="latest"),) if control else ()
    return StreamingPipelineSpec(
        stages=(
            stage("encode", "x", "y", resource_group=shared),
            stage("denoise", "y steer" if control else "y", "z", resource_group=shared),
            stage("decode", "z", "out", resource_group=shared),
        ),
        edges=(
            StreamingEdgeSpec("x", "encode", None, capacity),
            StreamingEdgeSpec("y", "denoise", "encode", capacity),
            StreamingEdgeSpec("z", "decode", "denoise", capacity),
            *steer,
        ),
        output_artifacts=frozenset({"out"}),
        output_capacity_per_session=capacity if output_capacity is None else output_capacity,
        resource_groups=groups,
    )


def diamond(capacity: int = 1, in_flight: int = 1) -> StreamingPipelineSpec:
    """One input for two branches, which meet; one of the branches leaves as an output too."""

    def branch(stage_id: str, produces: str) -> StreamingStageSpec:
        return stage(stage_id, "x", produces) if in_flight == 1 else unordered(stage_id, "x", produces, in_flight)

    return StreamingPipelineSpec(
        stages=(branch("left", "l"), branch("right", "r"), stage("join", "l r", "out")),
        edges=(
            StreamingEdgeSpec("x", "left", None, capacity),
            StreamingEdgeSpec("x", "right", None, capacity),
            StreamingEdgeSpec("l", "join", "left", capacity),
            StreamingEdgeSpec("r", "join", "right", capacity),
        ),
        output_artifacts=frozenset({"out", "l"}),
        output_capacity_per_session=capacity,
    )


class Bench:
    """A scheduler without threads: what it starts lies in ``works`` until a test answers it."""

    def __init__(self, spec: StreamingPipelineSpec, window: int = 64) -> None:
        self.graph = PipelineGraph(spec)
        self.clock = ManualClock()
        self.window = window
        lanes = [ActorLane(ManualActor({})) for _ in self.graph.stages]
        self.scheduler = Scheduler(self.graph, lanes, self.clock)
        self.works: list[StageWork] = []
        self.ended: list[StreamingSession] = []
        self._epochs = itertools.count(1)

    def session(self, session_id: str = "s", final: int | None = None) -> StreamingSession:
        lanes = tuple(queue.lane for queue in self.scheduler.queues)
        context = StreamingSessionContext(session_id, next(self._epochs))
        return StreamingSession(context, self.graph, lanes, final, self.window, self.scheduler.totals)

    def push(self, session: StreamingSession, sequence_id: int, artifacts: Iterable[str] | None = None) -> None:
        names = self.graph.inputs if artifacts is None else artifacts
        self.scheduler.add_inputs(session, sequence_id, {name: (name, sequence_id) for name in names})
        self.collect()

    def answer(
        self, work: StageWork, error: BaseException | None = None, wrap: Callable[[object], object] | None = None
    ) -> None:
        """Answer with an error, or with outputs, which ``wrap`` is applied to."""
        self.works.remove(work)
        outputs: dict[str, object] = {name: (name, work.sequence_id) for name in work.progress.table.spec.produces}
        if wrap is not None:
            outputs = {name: wrap(value) for name, value in outputs.items()}
        self.scheduler.on_completed(work, None if error else outputs, error)
        self.collect()

    def read(self, session: StreamingSession, most: int = 1) -> list[tuple[int, str, object]]:
        found = self.scheduler.read_outputs(session, most)
        self.collect()
        return [tuple(output) for output in found]

    def collect(self) -> None:
        effects = self.scheduler.take_effects()
        if effects is not None:
            self.works += effects.started
            self.ended += effects.ended

    def at(self, stage_id: str) -> list[StageWork]:
        return [work for work in self.works if work.progress.table.spec.stage_id == stage_id]
