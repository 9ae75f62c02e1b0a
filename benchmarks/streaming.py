"""What does the streaming scheduler cost, how evenly does it share, and how fresh are its controls?

    python benchmarks/streaming.py [--json FILE] [--quick]

- Throughput: three stages that do nothing, every session fed as fast as the pipeline takes it, by two tasks a session
  on one event loop. CPU is that of the whole process, the feeding and reading included.
- Memory: growth of what Python has allocated between two moments of one session that lie 100,000 chunks apart.
- Delivery: from the moment at which an output can be read to the reader; the budget is for 1, 8 and 64 sessions with
  ten chunks a second each. At full load stages that do nothing keep the one event loop of this benchmark busy with all
  that feeds and reads: an output waits for two passes of that loop, and any other wake-up, shown as well, for one.
- Pipelining: the period of chunks through stages of 5, 10 and 5 ms, over 10 ms. A stage of this benchmark sleeps.
- Control age: from setting a control to the begin of the work that has it, in periods of chunks; the most at full load.
- Shares: four sessions at full load on stages of 3, 15 and 5 ms; how far the one furthest from a quarter is off. And
  beside four that take all they can, one at 5 chunks a second: how often it is refused.

The figures are medians over rounds.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import statistics
import threading
import time
import tracemalloc
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from realtime_engine.core.streaming import (
    LocalStageActor,
    StreamingEdgeSpec,
    StreamingPipelineOrchestrator,
    StreamingPipelineSpec,
    StreamingStageInvocation,
    StreamingStageSpec,
)

Figures = dict[str, float]
STAGES = ("encode", "denoise", "decode")
SESSIONS = (1, 8, 64, 256)
FULL = "delivery p95 at full load"

MIN = {f"chunks a second, {count}": 3000.0 for count in ("1 session", "64 sessions")}
MAX = {
    "CPU a chunk, 64 sessions to 1": 1.5,
    "memory growth, 100,000 chunks [kB]": 1000.0,
    **{f"delivery p95, {count} [ms]": 2.0 for count in ("1 session", "8 sessions", "64 sessions")},
    "period to slowest stage": 1.1,
    "control age [chunks]": 1.0,
    "furthest from a fair share [%]": 10.0,
    "refusals of a slow session": 0.0,
}


def chain(edge_capacity: int, control: bool) -> StreamingPipelineSpec:
    """Three stages in a row; the middle one may read a control."""
    artifacts = ("source", "encoded", "latent", "frames")
    consumes = [{artifact} for artifact in artifacts[:3]]
    edges = [
        StreamingEdgeSpec(artifact, stage, source, capacity_per_session=edge_capacity)
        for artifact, stage, source in zip(artifacts, STAGES, (None, *STAGES), strict=False)
    ]
    if control:
        consumes[1].add("control")
        edges.append(StreamingEdgeSpec("control", STAGES[1], kind="latest"))
    return StreamingPipelineSpec(
        stages=tuple(
            StreamingStageSpec(name, frozenset(wanted), frozenset({made}))
            for name, wanted, made in zip(STAGES, consumes, artifacts[1:], strict=True)
        ),
        edges=tuple(edges),
        output_artifacts=frozenset({"frames"}),
        output_capacity_per_session=edge_capacity,
    )


@contextmanager
def running(
    seconds: tuple[float, float, float] = (0.0, 0.0, 0.0), *, edge_capacity: int = 2, control: bool = False
) -> Iterator[StreamingPipelineOrchestrator]:
    """A pipeline whose stages sleep so long. The control that the middle one has read goes along."""

    def handler(artifact: str, duration_s: float) -> Callable[[StreamingStageInvocation], Mapping[str, object]]:
        def handle(work: StreamingStageInvocation) -> Mapping[str, object]:
            if duration_s:
                time.sleep(duration_s)
            inputs = work.inputs
            return {artifact: inputs["control"] if "control" in inputs else next(iter(inputs.values()))}

        return handle

    actors = {
        name: LocalStageActor(handler(artifact, duration), mailbox_capacity=1, name=name)
        for name, artifact, duration in zip(STAGES, ("encoded", "latent", "frames"), seconds, strict=True)
    }
    with StreamingPipelineOrchestrator(chain(edge_capacity, control), actors) as pipeline:
        yield pipeline


async def feed(pipeline: StreamingPipelineOrchestrator, session_id: str) -> None:
    """As fast as the pipeline takes it."""
    sequence_id = 0
    while True:
        await pipeline.push_inputs(session_id, sequence_id, {"source": sequence_id})
        sequence_id += 1


async def cancelled(*tasks: asyncio.Task[None]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


class Load:
    """Sessions that take all that they can get, and how many chunks each has had."""

    def __init__(self, pipeline: StreamingPipelineOrchestrator, sessions: int) -> None:
        self._pipeline = pipeline
        self.chunks = {f"session-{index}": 0 for index in range(sessions)}
        self._tasks: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> Load:
        for session_id in self.chunks:
            self._pipeline.create_session(session_id)
            self._tasks += (
                asyncio.create_task(feed(self._pipeline, session_id)),
                asyncio.create_task(self._read(session_id)),
            )
        return self

    async def __aexit__(self, *_: object) -> None:
        await cancelled(*self._tasks)

    @property
    def total(self) -> int:
        return sum(self.chunks.values())

    async def _read(self, session_id: str) -> None:
        async for _ in self._pipeline.outputs(session_id):
            self.chunks[session_id] += 1


def measure_throughput(sessions: int, seconds: float) -> tuple[float, float]:
    """Chunks a second, and microseconds of CPU a chunk."""

    async def measure() -> tuple[float, float]:
        async with Load(pipeline, sessions) as load:
            await asyncio.sleep(0.2)
            chunks, began, cpu = load.total, time.perf_counter(), time.process_time()
            await asyncio.sleep(seconds)
            chunks, elapsed, cpu = load.total - chunks, time.perf_counter() - began, time.process_time() - cpu
        return chunks / elapsed, cpu / chunks * 1e6

    with running() as pipeline:
        return asyncio.run(measure())


def measure_memory(chunks: int) -> float:
    """Kilobytes of growth over so many chunks."""

    def allocated() -> int:
        gc.collect()
        return tracemalloc.get_traced_memory()[0]

    async def measure() -> float:
        pipeline.create_session("a")
        feeding = asyncio.create_task(feed(pipeline, "a"))
        async for output in pipeline.outputs("a"):
            if output.sequence_id == 1000:
                before = allocated()
            elif output.sequence_id == 1000 + chunks:
                break
        growth = allocated() - before
        await cancelled(feeding)
        return growth / 1e3

    tracemalloc.start()
    try:
        with running() as pipeline:
            return asyncio.run(measure())
    finally:
        tracemalloc.stop()


def measure_delivery(sessions: int, chunks: int) -> float:
    """Milliseconds, p95, of so many sessions with ten chunks a second each."""
    late: list[float] = []

    async def read(session_id: str) -> None:
        late.extend([(time.monotonic() - o.emitted_at) * 1e3 async for o in pipeline.outputs(session_id)])

    async def play(index: int) -> None:
        session_id = f"session-{index}"
        pipeline.create_session(session_id, final_sequence_id=chunks - 1)
        reader = asyncio.create_task(read(session_id))
        await asyncio.sleep(0.1 * index / sessions)  # people do not begin at the same moment
        for sequence_id in range(chunks):
            await pipeline.push_inputs(session_id, sequence_id, {"source": sequence_id})
            await asyncio.sleep(0.1)
        await reader

    async def measure() -> None:
        await asyncio.gather(*(play(index) for index in range(sessions)))

    with running() as pipeline:
        asyncio.run(measure())
    return p95(late)


def measure_full_delivery(sessions: int, seconds: float) -> tuple[float, float]:
    """Milliseconds, p95, at full load: to the reader, and of waking the same event loop for nothing."""
    late: list[float] = []
    woken: list[float] = []

    async def read(session_id: str) -> None:
        async for output in pipeline.outputs(session_id):
            note(late, output.emitted_at)

    def note(delays: list[float], began: float) -> None:
        delays.append((time.monotonic() - began) * 1e3)

    def knock(loop: asyncio.AbstractEventLoop, over: threading.Event) -> None:
        while not over.wait(0.005):
            loop.call_soon_threadsafe(note, woken, time.monotonic())

    async def measure() -> None:
        names = [f"session-{index}" for index in range(sessions)]
        for name in names:
            pipeline.create_session(name)
        tasks = [asyncio.create_task(task(name)) for name in names for task in (read, partial(feed, pipeline))]
        over = threading.Event()
        knocking = threading.Thread(target=knock, args=(asyncio.get_running_loop(), over))
        knocking.start()
        await asyncio.sleep(seconds)
        over.set()
        await cancelled(*tasks)
        knocking.join()

    with running() as pipeline:
        asyncio.run(measure())
    return p95(late), p95(woken)


def p95(values: list[float]) -> float:
    return sorted(values)[int(len(values) * 0.95)]


def measure_period(seconds: float) -> float:
    """The median period of chunks over the time that the slowest stage sleeps."""

    async def measure() -> float:
        async with Load(pipeline, 1) as load:
            await asyncio.sleep(seconds)
            period = pipeline.session_metrics(next(iter(load.chunks))).chunk_period.p50_seconds
        assert period is not None
        return period / 0.010

    with running((0.005, 0.010, 0.005)) as pipeline:
        return asyncio.run(measure())


def measure_control_age(settings: int) -> float:
    """The most of the period between two begins that lies after a control was set; the second begin has it."""
    ages: list[float] = []

    async def measure() -> float:
        pipeline.create_session("a")
        feeding = asyncio.create_task(feed(pipeline, "a"))
        set_at, version = 0.0, 0
        async for output in pipeline.outputs("a"):
            if output.controls["control"] < version:
                continue
            if version:
                begun = {timing.sequence_id: timing.begun_at for timing in pipeline.stage_timings("a", STAGES[1])}
                newest, last = begun[output.sequence_id], begun[output.sequence_id - 1]
                assert newest is not None and last is not None
                ages.append((newest - set_at) / (newest - last))
            if len(ages) == settings:
                break
            await asyncio.sleep(0.0013 * (len(ages) % 8))  # any moment of a period
            set_at, version = time.monotonic(), pipeline.set_control("a", "control", len(ages))
        await cancelled(feeding)
        return max(ages)

    with running((0.005, 0.010, 0.005), control=True) as pipeline:
        return asyncio.run(measure())


def measure_shares(seconds: float) -> float:
    """Per cent by which the session that is furthest from its fair share misses it."""

    async def measure() -> float:
        async with Load(pipeline, 4) as load:
            await asyncio.sleep(seconds)
            fair = load.total / len(load.chunks)
            return max(abs(count / fair - 1) for count in load.chunks.values()) * 100

    with running((0.003, 0.015, 0.005)) as pipeline:
        return asyncio.run(measure())


def measure_refusals(chunks: int) -> float:
    """How often a session below its fair share finds no room, beside four that take all they can."""

    async def measure() -> float:
        refused = 0
        async with Load(pipeline, 4):
            pipeline.create_session("slow")
            for sequence_id in range(chunks):
                await asyncio.sleep(0.2)
                pipeline.poll_outputs("slow")
                while not pipeline.try_push_inputs("slow", sequence_id, {"source": sequence_id}):
                    refused += 1
                    await asyncio.sleep(0.01)
        return float(refused)

    with running((0.003, 0.015, 0.005)) as pipeline:
        return asyncio.run(measure())


def named(sessions: int) -> str:
    return f"{sessions} session{'s' if sessions > 1 else ''}"


def one_round(scale: float) -> Figures:
    figures: Figures = {}
    for sessions in SESSIONS:
        name = named(sessions)
        rate, cpu = measure_throughput(sessions, 1.0 * scale)
        figures[f"chunks a second, {name}"], figures[f"CPU a chunk, {name} [us]"] = rate, cpu
    figures["CPU a chunk, 64 sessions to 1"] = (
        figures["CPU a chunk, 64 sessions [us]"] / figures["CPU a chunk, 1 session [us]"]
    )
    for sessions in SESSIONS[:3]:
        figures[f"delivery p95, {named(sessions)} [ms]"] = measure_delivery(sessions, int(20 * scale))
    full, woken = measure_full_delivery(SESSIONS[2], 1.0 * scale)
    figures[f"{FULL}, {SESSIONS[2]} sessions [ms]"] = full
    figures[f"{FULL}, of the loop alone [ms]"] = woken
    figures["period to slowest stage"] = measure_period(1.0 * scale)
    figures["control age [chunks]"] = measure_control_age(int(30 * scale))
    figures["furthest from a fair share [%]"] = measure_shares(3.0 * scale)
    figures["refusals of a slow session"] = measure_refusals(int(10 * scale))
    return figures


def budget_of(name: str) -> str:
    if name in MIN:
        return f">= {MIN[name]:g}"
    return f"<= {MAX[name]:g}" if name in MAX else ""


def holds(name: str, value: float) -> bool:
    return value >= MIN.get(name, value) and value <= MAX.get(name, value)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures here as well")
    parser.add_argument("--quick", action="store_true", help="one short round, to see that everything runs")
    arguments = parser.parse_args()
    scale, rounds = (0.3, 1) if arguments.quick else (1.0, 3)
    measured = [one_round(scale) for _ in range(rounds)]
    figures = {name: statistics.median(figures[name] for figures in measured) for name in measured[0]}
    figures["memory growth, 100,000 chunks [kB]"] = measure_memory(int(100_000 * scale))
    print(f"{'':<44}{'measured':>12}{'budget':>12}")
    for name, value in figures.items():
        print(f"{name:<44}{value:>12.2f}{budget_of(name):>12}{'' if holds(name, value) else '   missed'}")
    if arguments.json is not None:
        report = {"rounds": rounds, "figures": figures, "least": MIN, "most": MAX}
        arguments.json.write_text(json.dumps(report, indent=2) + "\n")


if __name__ == "__main__":
    main()
