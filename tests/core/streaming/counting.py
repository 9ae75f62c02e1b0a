"""A pipeline of two stages whose chunks say what they were made from, and an engine on it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Literal, NamedTuple

from realtime_engine import EngineManifest
from realtime_engine.core.streaming import (
    ChunkRequest,
    LocalStageActor,
    StreamingEdgeSpec,
    StreamingEngine,
    StreamingLastOutput,
    StreamingPipelineSpec,
    StreamingSessionCloseReason,
    StreamingSessionContext,
    StreamingStageInvocation,
    StreamingStageSpec,
)

from .workers import TIMEOUT_S

Hook = Callable[[StreamingStageInvocation], None]


class Made(NamedTuple):
    """A chunk's output."""

    session_id: str
    epoch: int
    seed: int
    sequence_id: int
    total: int  # of all moves of this epoch
    move: int
    events: tuple[object, ...]


class CountingModel:
    """State in both stages: ``plan`` keeps the seed, ``act`` the total of moves.

    Attributes:
        before_act: called with each invocation of the second stage.
        is_last: whether the rollout ends with this invocation of the second stage.
        closed: (stage, session, epoch) of each call of a session closer.
    """

    def __init__(self) -> None:
        self.before_act: Hook = lambda work: None
        self.is_last: Callable[[StreamingStageInvocation], bool] = lambda work: False
        self.seeds: dict[str, int] = {}
        self.totals: dict[str, int] = {}
        self.closed: list[tuple[str, str, int]] = []
        self._planned = threading.Semaphore(0)

    async def await_plan(self) -> None:
        """One more chunk has been in the first stage."""
        assert await asyncio.to_thread(self._planned.acquire, timeout=TIMEOUT_S)

    def plan(self, work: StreamingStageInvocation) -> Mapping[str, object]:
        request = work.inputs["request"]
        assert isinstance(request, ChunkRequest)
        self._planned.release()
        if work.is_first:
            assert work.key.session_id not in self.seeds
            self.seeds[work.key.session_id] = request.context["seed"]
        return {"plan": self.seeds[work.key.session_id]}

    def act(self, work: StreamingStageInvocation) -> Mapping[str, object]:
        self.before_act(work)
        session_id, control, request = work.key.session_id, work.inputs["control"], work.inputs["request"]
        assert isinstance(control, Mapping) and isinstance(request, ChunkRequest)
        move = control.get("move", 0)
        total = self.totals[session_id] = self.totals.get(session_id, 0) + move
        seed = work.inputs["plan"]
        assert isinstance(seed, int)
        made = Made(session_id, work.key.session_epoch, seed, work.key.sequence_id, total, move, request.events)
        return {"chunk": StreamingLastOutput(made) if self.is_last(work) else made}

    def close_plan(self, context: StreamingSessionContext, reason: StreamingSessionCloseReason) -> None:
        self.closed.append(("plan", context.session_id, context.session_epoch))
        self.seeds.pop(context.session_id, None)

    def close_act(self, context: StreamingSessionContext, reason: StreamingSessionCloseReason) -> None:
        self.closed.append(("act", context.session_id, context.session_epoch))
        self.totals.pop(context.session_id, None)


SPEC = StreamingPipelineSpec(
    stages=(
        StreamingStageSpec("plan", frozenset({"request"}), frozenset({"plan"})),
        StreamingStageSpec("act", frozenset({"request", "plan", "control"}), frozenset({"chunk"})),
    ),
    edges=(
        StreamingEdgeSpec("request", "plan"),
        StreamingEdgeSpec("request", "act", capacity_per_session=2),
        StreamingEdgeSpec("control", "act", kind="latest"),
        StreamingEdgeSpec("plan", "act", source_stage="plan"),
    ),
    output_artifacts=frozenset({"chunk"}),
)


def counting_engine(
    model: CountingModel,
    max_sessions: int = 4,
    rate_hz: float = 1000.0,
    on_detach: Literal["cancel", "drain"] = "cancel",
    **mappings: Any,
) -> StreamingEngine:
    actors = {
        "plan": LocalStageActor(model.plan, name="plan", session_closer=model.close_plan),
        "act": LocalStageActor(model.act, name="act", session_closer=model.close_act),
    }
    spec = replace(SPEC, on_detach=on_detach)
    return StreamingEngine(spec, actors, EngineManifest(max_sessions, rate_hz=rate_hz), **mappings)


class Turnstile:
    """Holds invocations of some sessions until it lets them through, one by one."""

    def __init__(self, *session_ids: str) -> None:
        self._held = frozenset(session_ids)
        self._open = False
        self._entered = threading.Semaphore(0)
        self._pass = threading.Semaphore(0)

    def __call__(self, work: StreamingStageInvocation) -> None:
        if work.key.session_id in self._held and not self._open:
            self._entered.release()
            assert self._pass.acquire(timeout=TIMEOUT_S)

    async def await_entry(self) -> None:
        """One more invocation has begun."""
        assert await asyncio.to_thread(self._entered.acquire, timeout=TIMEOUT_S)

    def let_pass(self) -> None:
        self._pass.release()

    def open(self) -> None:
        """Hold no invocation any more."""
        self._open = True
        self._pass.release(1000)
