"""The actors of a pipeline: creation, failure, replacement and close."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from functools import partial
from typing import TypeAlias, cast

from ..clock import Deadline
from ..errors import describe, reraise_interrupt
from .errors import StreamingActorFailedError
from .graph import PipelineGraph
from .types import StreamingActorHealth, StreamingActorState, StreamingStageActor
from .work import ActorLane

logger = logging.getLogger(__name__)

_GRACE_S = 0.05  # for actors that end at once, when others have used up the timeout

ActorFactory: TypeAlias = Callable[[], StreamingStageActor]


class StageActors:
    """One actor for each stage. A stage with a factory gets a new actor when its own has failed.

    Args:
        graph: the pipeline.
        actors: stage id -> actor or factory.
        on_failed: called with the stage, its lane and the error when an actor fails, on any thread.

    Attributes:
        lanes: the current actors, by stage.

    Raises:
        ValueError: the names are not those of the stages, or two stages have the same actor or worker.
    """

    def __init__(
        self,
        graph: PipelineGraph,
        actors: Mapping[str, StreamingStageActor | ActorFactory],
        on_failed: Callable[[int, ActorLane, StreamingActorFailedError], None],
    ) -> None:
        check_ids(graph, actors)
        check_exclusive({stage_id: actor for stage_id, actor in actors.items() if factory_of(actor) is None})
        self.stage_ids = tuple(table.spec.stage_id for table in graph.stages)
        self._factories: list[ActorFactory | None] = []
        self._locks = [threading.Lock() for _ in self.stage_ids]
        self._closing = threading.Lock()  # held to replace a lane and to close
        self._closed = False
        self._on_failed = on_failed
        self.lanes: list[ActorLane] = []
        try:
            for stage_id in self.stage_ids:
                factory = factory_of(actors[stage_id])
                self._factories.append(factory)
                self.lanes.append(
                    make_lane(factory) if factory else ActorLane(cast(StreamingStageActor, actors[stage_id]))
                )
            check_exclusive({stage_id: lane.actor for stage_id, lane in zip(self.stage_ids, self.lanes, strict=True)})
        except BaseException:
            for lane, factory in zip(self.lanes, self._factories, strict=False):
                if factory is not None:
                    lane.actor.close()
            raise

    def watch(self) -> None:
        """Start to report failures; those that have happened are reported at once."""
        for index, lane in enumerate(self.lanes):
            self._watch(index, lane)

    @property
    def restartable(self) -> list[bool]:
        """Whether it has a factory, by stage."""
        return [factory is not None for factory in self._factories]

    def health(self) -> dict[str, StreamingActorHealth]:
        """The states of the actors, by stage id."""
        return {stage_id: lane.actor.health() for stage_id, lane in zip(self.stage_ids, self.lanes, strict=True)}

    def revive(self, replaced: Callable[[int, ActorLane, BaseException], None]) -> None:
        """Replace the failed actors; ``replaced`` is called before each replacement.

        Raises:
            StreamingActorFailedError: a failed actor has no factory, its factory failed, or the pipeline was closed.
        """
        for index in range(len(self.lanes)):
            if is_dead(self.lanes[index].actor.health()):
                with self._locks[index]:
                    self._revive(index, replaced)

    def _revive(self, index: int, replaced: Callable[[int, ActorLane, BaseException], None]) -> None:
        old, factory, stage_id = self.lanes[index], self._factories[index], self.stage_ids[index]
        health = old.actor.health()
        if not is_dead(health):
            return  # another thread has replaced it
        reason = (
            f"the actor of stage {stage_id!r} is {health.state.value}: {health.failure_reason or 'no reason given'}"
        )
        if factory is None:
            raise StreamingActorFailedError(f"{reason}; give a factory of actors to have it restarted")
        try:
            lane = make_lane(factory)
            others = {other: self.lanes[i].actor for i, other in enumerate(self.stage_ids) if i != index}
            check_exclusive({**others, stage_id: lane.actor})
        except BaseException as error:  # raised by a model's constructor, SystemExit included
            reraise_interrupt(error)
            raise StreamingActorFailedError(f"{reason}; a new one failed: {describe(error)}") from error
        replaced(index, lane, StreamingActorFailedError(reason))  # before other threads find the new actor running
        with self._closing:
            if not self._closed:
                self.lanes[index] = lane
        if self.lanes[index] is not lane:
            close_quietly(lane, stage_id)
            raise StreamingActorFailedError(f"{reason}; the pipeline was closed before there was a new one")
        self._watch(index, lane)
        logger.warning("%s; it has been replaced", reason)
        threading.Thread(target=close_quietly, args=(old, stage_id), name="streaming-close-dead", daemon=True).start()

    def _watch(self, index: int, lane: ActorLane) -> None:
        """Report the failure of an actor that has ``add_failure_callback``."""
        add_callback = getattr(lane.actor, "add_failure_callback", None)
        if callable(add_callback):
            add_callback(partial(self._report_failed, index, lane))

    def _report_failed(self, index: int, lane: ActorLane, reason: str) -> None:
        stage_id = self.stage_ids[index]
        self._on_failed(index, lane, StreamingActorFailedError(f"the actor of stage {stage_id!r} has failed: {reason}"))

    def close(self, deadline_s: Callable[[], float]) -> list[str]:
        """Close all actors concurrently; returns the stages that have not ended when ``deadline_s`` returns 0."""
        with self._closing:
            self._closed = True
        threads = [
            threading.Thread(
                target=close_quietly, args=(lane, stage_id), name=f"streaming-close-{stage_id}", daemon=True
            )
            for stage_id, lane in zip(self.stage_ids, self.lanes, strict=True)
        ]
        for thread in threads:
            thread.start()
        grace = Deadline(_GRACE_S)
        for thread in threads:
            thread.join(max(deadline_s(), grace.remaining()))
        return [stage_id for stage_id, thread in zip(self.stage_ids, threads, strict=True) if thread.is_alive()]


def factory_of(given: StreamingStageActor | ActorFactory) -> ActorFactory | None:
    """``given``, if it is a factory; ``None`` if it is an actor."""
    return None if hasattr(given, "submit") and not isinstance(given, type) else cast(ActorFactory, given)


def make_lane(factory: ActorFactory) -> ActorLane:
    """A lane with a new actor; ``TypeError`` if the factory returns something else."""
    actor = factory()
    if not hasattr(actor, "submit"):
        raise TypeError(f"a factory of actors must return an actor, got {actor!r}")
    return ActorLane(actor)


def check_ids(graph: PipelineGraph, actors: Mapping[str, object]) -> None:
    """``ValueError`` unless there is one actor or factory for each stage."""
    if not isinstance(actors, Mapping):
        raise ValueError(f"actors must be a mapping of stage ids to actors, got {actors!r}")
    missing, unknown = sorted(graph.index.keys() - actors.keys()), sorted(actors.keys() - graph.index.keys())
    if missing:
        raise ValueError(f"stage {missing[0]!r} has no actor")
    if unknown:
        raise ValueError(f"actor {unknown[0]!r} belongs to no stage; stages: {', '.join(sorted(graph.index))}")
    for stage_id, actor in actors.items():
        if not hasattr(actor, "submit") and not callable(actor):
            raise ValueError(f"stage {stage_id!r} needs an actor or a factory of actors, got {actor!r}")


def check_exclusive(actors: Mapping[str, object]) -> None:
    """``ValueError`` when two stages have the same actor, or two actors the same worker."""
    for what, given in (("actor", actors), ("worker", _workers(actors))):
        stages: dict[int, str] = {}
        for stage_id, owned in given.items():
            other = stages.setdefault(id(owned), stage_id)
            if other != stage_id:
                raise ValueError(f"stages {other!r} and {stage_id!r} have the same {what}; give each stage its own")


def _workers(actors: Mapping[str, object]) -> dict[str, object]:
    found = {stage_id: getattr(actor, "worker", None) for stage_id, actor in actors.items()}
    return {stage_id: worker for stage_id, worker in found.items() if worker is not None}


def is_dead(health: StreamingActorHealth) -> bool:
    """Whether an actor has failed or is closed."""
    return health.state is not StreamingActorState.RUNNING


def close_quietly(lane: ActorLane, stage_id: str) -> None:
    """Close an actor and log its errors."""
    try:
        lane.actor.close()
    except Exception:
        logger.exception("closing the actor of stage %r failed", stage_id)
