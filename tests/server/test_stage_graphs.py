"""A demo on a stage graph: its metrics, its trace, its page's statistics and its alerts."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from typing import Any

import numpy as np

from realtime_engine import EngineManifest
from realtime_engine.core.streaming import (
    ChunkRequest,
    LocalStageActor,
    StreamingEdgeSpec,
    StreamingEngine,
    StreamingPipelineSpec,
    StreamingStageInvocation,
    StreamingStageSpec,
)
from realtime_engine.infra.demo import Demo

from .support import HEIGHT, WIDTH, OwnedSession, in_process, paint_demo, until
from .test_metrics import read

PREFIX = "realtime_engine_pipeline_"
SPEC = StreamingPipelineSpec(
    stages=(
        StreamingStageSpec("draw", frozenset({"request", "control"}), frozenset({"picture"})),
        StreamingStageSpec("frame", frozenset({"picture"}), frozenset({"frames"})),
    ),
    edges=(
        StreamingEdgeSpec("request", "draw"),
        StreamingEdgeSpec("control", "draw", kind="latest"),
        StreamingEdgeSpec("picture", "frame", source_stage="draw"),
    ),
    output_artifacts=frozenset({"frames"}),
)


def draw(work: StreamingStageInvocation) -> Mapping[str, object]:
    request, control = work.inputs["request"], work.inputs["control"]
    assert isinstance(request, ChunkRequest) and isinstance(control, Mapping)
    if control.get("prompt") == "fail":
        raise RuntimeError("the stage failed")
    if control.get("prompt") == "slow":
        time.sleep(0.02)  # two periods
    return {"picture": np.full((HEIGHT, WIDTH, 3), work.key.sequence_id % 200, np.uint8)}


def frame(work: StreamingStageInvocation) -> Mapping[str, object]:
    picture = work.inputs["picture"]
    assert isinstance(picture, np.ndarray)
    return {"frames": picture[None]}


def build(options: object) -> StreamingEngine:
    actors = {"draw": LocalStageActor(draw), "frame": LocalStageActor(frame)}
    return StreamingEngine(SPEC, actors, EngineManifest(2, (1, HEIGHT, WIDTH, 3), rate_hz=100.0))


def sample(metric: str, **labels: str) -> str:
    return f"{PREFIX}{metric}{dict(sorted(labels.items()))}"


def stage_demo(**given: Any) -> Demo:
    return paint_demo(build=build, **given)


async def chunks(owned: OwnedSession, served: Any, count: int) -> None:
    published = served.session(owned).media.frames.statistics
    wanted = published().published + count
    await until(lambda: published().published >= wanted)


async def test_every_stage_is_in_the_metrics() -> None:
    async with in_process(stage_demo()) as served:
        owned = await served.create()
        await owned.send(1, keys=["KeyW"])
        await chunks(owned, served, 20)
        now = await read(served)
        for name in ("ticks_total", "steps_total", "chunks_total", "step_seconds_count", "input_to_step_seconds_count"):
            assert now["realtime_engine_" + name] > 0
        for stage in ("draw", "frame"):
            assert now[sample("stage_chunks_total", stage=stage, outcome="completed")] >= 20
            assert now[sample("stage_chunks_total", stage=stage, outcome="failed")] == 0
            assert now[sample("stage_waiting", stage=stage)] >= 0
            assert now[sample("stage_in_flight", stage=stage)] in (0, 1)
            for phase in ("queue", "mailbox", "run"):
                assert now[sample("stage_seconds_count", stage=stage, phase=phase)] >= 20
            assert now[sample("stage_seconds", stage=stage, phase="run", quantile="0.95")] > 0
        assert now[sample("stage_idle_seconds_total", stage="draw", reason="request")] > 0
        for name in ("first_output", "control_to_output", "chunk_period"):
            assert now[f"{PREFIX}{name}_seconds_count"] > 0
        assert now[f"{PREFIX}real_time_factor"] > 0


async def test_an_engine_without_stages_has_no_values() -> None:
    async with in_process() as served:
        await served.create()
        assert not [name for name in await read(served) if name.startswith(PREFIX)]


async def test_a_failing_stage_counts_as_the_alert_expects() -> None:
    async with in_process(stage_demo()) as served:
        owned = await served.create()
        messages: list[str] = []
        session = served.session(owned)
        session.connections.add("test", messages.append, session.access.owner)
        await owned.send(1, fields={"prompt": "fail"})
        await until(lambda: served.runtime.host.monitor.failed >= 2)
        now = await read(served)
        assert now["realtime_engine_failed_total"] >= 2
        assert now[sample("stage_chunks_total", stage="draw", outcome="failed")] >= 2
        await owned.send(2, fields={"prompt": ""})
        await chunks(owned, served, 5)  # it goes on
        assert any('"failed"' in message and '"fatal": false' in message for message in messages)


async def test_a_slow_stage_misses_deadlines_as_the_alert_expects() -> None:
    async with in_process(stage_demo()) as served:
        owned = await served.create()
        await owned.send(1, fields={"prompt": "slow"})
        await chunks(owned, served, 10)
        now = await read(served)
        assert now["realtime_engine_overruns_total"] > 0.05 * now["realtime_engine_ticks_total"]
        assert now[f"{PREFIX}real_time_factor"] > 1


async def test_a_trace_has_the_stages_of_each_chunk() -> None:
    async with in_process(stage_demo()) as served:
        owned = await served.create()
        await chunks(owned, served, 10)
        events = (await owned.request("GET", "trace")).json()["traceEvents"]
        names = {event["args"]["name"] for event in events if event["ph"] == "M" and "name" in event["args"]}
        assert f"session {owned.id}: stages of the model" in names
        assert {"draw", "draw: wait", "frame", "frame: wait"} <= names
        drawn = [event for event in events if event["ph"] == "X" and event["cat"] == "stage"]
        for stage in ("draw", "frame"):
            slices = {event["args"]["seq"]: event for event in drawn if event["name"].startswith(f"{stage} ")}
            assert set(range(5)) <= slices.keys() and slices[0]["args"]["epoch"] == 1
        assert len({(event["pid"], event["tid"]) for event in drawn}) >= 4


async def test_the_statistics_of_the_page_have_the_stages_of_the_session() -> None:
    async with in_process(stage_demo()) as served:
        owned = await served.create()
        await chunks(owned, served, 10)
        message = {"v": 1, "type": "presented", "seq": 1, "clock": {"offset": 0.0, "uncertainty": 0.0}}
        shown = {"epoch": 1, "seq": 0, "index": 0, "presented": 0.0}
        response = await owned.request("POST", "actions", json={**message, "frames": [shown], "timing": True})
        (timing,) = response.json()
        assert [entry["stage"] for entry in timing["pipeline"]] == ["draw", "frame", "pipeline"]
        draw_values, whole = timing["pipeline"][0]["values"], timing["pipeline"][2]["values"]
        assert draw_values["run_p95_ms"] >= draw_values["run_p50_ms"] > 0 and draw_values["queue_p95_ms"] >= 0
        assert draw_values["longest_idle_reason"] is not None and draw_values["in_flight"] in (0, 1)
        assert whole["real_time_factor"] > 0 and whole["chunk_period_p95_ms"] > 0 and whole["first_output_ms"] > 0


async def test_a_rollout_that_reaches_the_limit_finishes() -> None:
    async with in_process(stage_demo(max_chunks=5)) as served:
        owned = await served.create()
        messages: list[str] = []
        session = served.session(owned)
        session.connections.add("test", messages.append, session.access.owner)
        await until(lambda: any('"finished"' in message for message in messages))
        assert served.runtime.host.monitor.chunks == 5
        await asyncio.wait_for(owned.request("POST", "reset", json={}), 10)
        await until(lambda: sum('"finished"' in message for message in messages) == 2)
        assert served.runtime.host.monitor.chunks == 10
