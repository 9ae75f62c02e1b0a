"""What does the engine cost, and how steady is its beat?

    python benchmarks/engine.py [--json FILE] [--quick] [--peer PYTHON]

Each figure is the median over rounds. With ``--peer`` (the interpreter of a virtual environment that holds the package
``reactor-realtime-engine``, which has the same import name) each round measures both in turn, so that a drift of the
machine touches both, and the table gives the ratios. A last table tells what the outbox adds to a chunk against a
callback straight from the engine's thread.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

Figures = dict[str, float]

BUDGETS = {
    "rate error 30 Hz [%]": 0.1,
    "rate error 60 Hz [%]": 0.1,
    "rate error 120 Hz [%]": 0.1,
    "serve tick, 1 session [us]": 100,
    "serve tick, 256 sessions [us]": 500,
    "step, heavy keys, 1 session [us]": 5,
    "step, heavy keys, 256 sessions [us]": 260,
    "idle wake-up p50 [ms]": None,
    "idle wake-up p99 [ms]": 2,
}
RATIO_BUDGETS = {
    "serve tick, 1 session [us]": 0.4,
    "serve tick, 256 sessions [us]": 0.5,
    "step, heavy keys, 256 sessions [us]": 0.5,
}


# -- measured in a process of its own, by names that both packages have


def no_op_model(max_sessions: int, rate_hz: float = 60.0) -> Any:
    from realtime_engine import EngineManifest, Lane

    class Stage:
        def __init__(self, lane: Lane, fill: bool = False) -> None:
            self.lane = lane
            self._fill = fill

        def __call__(self, batch: Any) -> None:
            if self._fill:
                batch.outputs.update(dict.fromkeys(batch.due))

    class Model:
        def manifest(self) -> EngineManifest:
            return EngineManifest(max_sessions=max_sessions, rate_hz=rate_hz)

        def stages(self) -> list[Stage]:
            return [Stage(Lane.ENCODE), Stage(Lane.HOT, fill=True)]

        def heavy_keys(self) -> tuple[str, ...]:
            return ("prompt",)

        def seed(self, rows: Mapping[int, Mapping[str, Any]]) -> None:
            pass

        def detach(self, row: int, session_id: str) -> None:
            pass

    return Model()


def measure_step(sessions: int, seconds: float) -> float:
    """Microseconds of one ``ComposedEngine.step`` whose stages do nothing."""
    from realtime_engine import ComposedEngine, SessionInit

    engine = ComposedEngine(no_op_model(sessions), pipeline=False)
    for i in range(sessions):
        engine.attach(SessionInit(f"session-{i}", {"prompt": "a castle"}))
    due = {f"session-{i}": {"prompt": "a castle", "move": 1} for i in range(sessions)}
    steps, elapsed = 0, 0.0
    engine.step(due)
    while elapsed < seconds:
        began = time.perf_counter()
        for _ in range(20):
            engine.step(due)
        elapsed += time.perf_counter() - began
        steps += 20
    return elapsed / steps * 1e6


class StepCounter:
    """An engine whose step calls are counted and timed."""

    def __init__(self, engine: Any, limit: int = 1_000_000) -> None:
        self._engine = engine
        self._limit = limit
        self.moments: list[float] = []

    def step(self, due: Any) -> Any:
        if len(self.moments) < self._limit:
            self.moments.append(time.perf_counter())
        return self._engine.step(due=due)

    def __getattr__(self, name: str) -> Any:
        if name == "serve":
            raise AttributeError(name)
        return getattr(self._engine, name)


async def serving(engine: Any, interval_s: float | None, drive: Callable[..., Any], sessions: int = 0) -> None:
    from realtime_engine import Action, Attach, Inbox, Outbox, default_serve

    inbox, outbox, stop = Inbox(), Outbox(maxsize=2 if sessions == 0 else 4 * sessions), asyncio.Event()
    serve = asyncio.create_task(default_serve(engine, inbox, outbox, stop=stop, tick_interval_s=interval_s))
    for i in range(sessions):
        inbox.put_nowait(Attach(f"session-{i}", {"prompt": "a castle"}))
        inbox.put_nowait(Action(f"session-{i}", {"prompt": "a castle", "move": 1}))
    reader = asyncio.create_task(read_everything(outbox))
    try:
        await drive(inbox)
    finally:
        stop.set()
        await serve
        reader.cancel()
        await asyncio.gather(reader, return_exceptions=True)


async def read_everything(outbox: Any) -> None:
    while True:
        await outbox.get()


def measure_rate(hz: float, seconds: float) -> float:
    """Per cent by which the steps' rate misses the declared one."""
    from realtime_engine import ComposedEngine

    engine = StepCounter(ComposedEngine(no_op_model(1, hz), pipeline=False))

    async def drive(inbox: Any) -> None:
        await asyncio.sleep(seconds)

    asyncio.run(serving(engine, None, drive, sessions=1))
    moments = engine.moments
    rate = (len(moments) - 1) / (moments[-1] - moments[0])
    return abs(rate / hz - 1) * 100


def measure_tick(sessions: int, seconds: float) -> float:
    """Microseconds of a whole round of the loop, run flat out with a reader behind the outbox."""
    from realtime_engine import ComposedEngine

    engine = StepCounter(ComposedEngine(no_op_model(sessions), pipeline=False))

    async def drive(inbox: Any) -> None:
        await asyncio.sleep(seconds)

    asyncio.run(serving(engine, 0.0, drive, sessions=sessions))
    moments = engine.moments[len(engine.moments) // 10 :]
    return (moments[-1] - moments[0]) / (len(moments) - 1) * 1e6


def measure_wake_up(attempts: int) -> tuple[float, float]:
    """Milliseconds, p50 and p99, from an Attach on an idle engine at 15 Hz to the begin of the step that follows."""
    from realtime_engine import Attach, ComposedEngine, Detach

    engine = StepCounter(ComposedEngine(no_op_model(1, 15.0), pipeline=False))
    waits: list[float] = []

    async def drive(inbox: Any) -> None:
        for attempt in range(attempts):
            await asyncio.sleep(0.07 + 0.0131 * (attempt % 5))
            seen, put = len(engine.moments), time.perf_counter()
            inbox.put_nowait(Attach("guest", {}))
            while len(engine.moments) == seen:  # noqa: ASYNC110 - an event would add to what is measured
                await asyncio.sleep(0.002)
            waits.append((engine.moments[seen] - put) * 1e3)
            inbox.put_nowait(Detach("guest"))

    asyncio.run(serving(engine, None, drive))
    waits.sort()
    return waits[len(waits) // 2], waits[min(len(waits) - 1, int(len(waits) * 0.99))]


def measure_all(scale: float) -> Figures:
    figures: Figures = {}
    for hz in (30, 60, 120):
        figures[f"rate error {hz} Hz [%]"] = measure_rate(hz, 4 * scale)
    for sessions, name in ((1, "1 session"), (256, "256 sessions")):
        figures[f"serve tick, {name} [us]"] = measure_tick(sessions, 2 * scale)
        figures[f"step, heavy keys, {name} [us]"] = measure_step(sessions, 1 * scale)
    p50, p99 = measure_wake_up(max(int(60 * scale), 5))
    figures["idle wake-up p50 [ms]"], figures["idle wake-up p99 [ms]"] = p50, p99
    return figures


# -- what the outbox adds to a chunk (ours alone)


def measure_delivery(way: str, seconds: float) -> Figures:
    """Latency from the end of the step to the reader, and CPU a chunk, for one session at 1000 chunks a second."""
    from realtime_engine import Attach, Chunk, Inbox, Outbox, default_serve
    from realtime_engine.examples import CpuReferenceEngine

    latencies: list[float] = []

    def receive(chunk: Chunk) -> None:
        latencies.append((time.monotonic_ns() - chunk.stamps.step_end) / 1e3)

    class CallbackOutbox(Outbox):
        def put_many(self, items: Any) -> None:
            for item in items:
                if isinstance(item, Chunk):
                    receive(item) if way == "callback on the engine's thread" else loop.call_soon_threadsafe(
                        receive, item
                    )

    async def read(outbox: Outbox) -> None:
        if way == "Outbox.get":
            while True:
                receive(await outbox.get())
        if way == "Outbox.session":
            async for item in outbox.session("alice"):
                if isinstance(item, Chunk):
                    receive(item)

    async def main() -> float:
        nonlocal loop
        loop = asyncio.get_running_loop()
        outbox = Outbox(maxsize=8) if way.startswith("Outbox") else CallbackOutbox()
        inbox, stop = Inbox(), asyncio.Event()
        serve = asyncio.create_task(
            default_serve(CpuReferenceEngine(1, (1, 1)), inbox, outbox, stop=stop, tick_interval_s=0.001)
        )
        reader = asyncio.create_task(read(outbox))
        inbox.put_nowait(Attach("alice", {"seed": 1}))
        await asyncio.sleep(0.2)
        latencies.clear()
        began = time.process_time()
        await asyncio.sleep(seconds)
        cpu = (time.process_time() - began) / max(len(latencies), 1)
        stop.set()
        await serve
        reader.cancel()
        await asyncio.gather(reader, return_exceptions=True)
        return cpu * 1e6

    loop: asyncio.AbstractEventLoop
    cpu_us = asyncio.run(main())
    latencies.sort()
    return {
        "p50 [us]": latencies[len(latencies) // 2],
        "p95 [us]": latencies[int(len(latencies) * 0.95)],
        "CPU a chunk [us]": cpu_us,
    }


WAYS = ("callback on the engine's thread", "call_soon_threadsafe", "Outbox.get", "Outbox.session")


# -- the table


def worker(python: str, scale: float) -> Figures:
    """Measure in a process of its own, from a folder where no package can be picked up by accident."""
    command = [python, str(Path(__file__).resolve()), "--worker", str(scale)]
    done = subprocess.run(command, capture_output=True, text=True, cwd="/", check=False)
    if done.returncode:
        raise SystemExit(f"{python} failed:\n{done.stderr}")
    return dict(json.loads(done.stdout))


def medians(rounds: list[Figures]) -> Figures:
    return {name: statistics.median(figures[name] for figures in rounds) for name in rounds[0]}


def print_table(ours: Figures, peer: Figures | None) -> None:
    print(f"{'':38}{'ours':>10}{'budget':>10}" + (f"{'peer':>10}{'ratio':>8}{'budget':>8}" if peer else ""))
    for name, value in ours.items():
        budget = BUDGETS[name]
        line = f"{name:38}{value:>10.3f}{'' if budget is None else format(budget, 'g'):>10}"
        if peer:
            ratio_budget = RATIO_BUDGETS.get(name)
            shown = "" if ratio_budget is None else format(ratio_budget, "g")
            line += f"{peer[name]:>10.3f}{value / peer[name] if peer[name] else float('nan'):>8.2f}{shown:>8}"
        print(line)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, help="write the figures here")
    parser.add_argument("--quick", action="store_true", help="a fifth of the time, one round")
    parser.add_argument("--peer", metavar="PYTHON", help="interpreter that has reactor-realtime-engine")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--worker", type=float, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.worker is not None:
        sys.stdout.write(json.dumps(measure_all(args.worker)))
        return
    scale, rounds = (0.2, 1) if args.quick else (1.0, args.rounds)
    ours, theirs = [], []
    for _ in range(rounds):
        ours.append(worker(sys.executable, scale))
        if args.peer:
            theirs.append(worker(args.peer, scale))
    table, peer_table = medians(ours), medians(theirs) if theirs else None
    print_table(table, peer_table)
    print(
        f"\n{'delivery of a chunk':38}"
        + "".join(f"{name:>18}" for name in ("p50 [us]", "p95 [us]", "CPU a chunk [us]"))
    )
    delivery = {way: measure_delivery(way, 3 * scale) for way in WAYS}
    for way, figures in delivery.items():
        print(f"{way:38}" + "".join(f"{value:>18.1f}" for value in figures.values()))
    if args.json:
        result = {"ours": table, "peer": peer_table, "delivery": delivery, "rounds": rounds}
        args.json.write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
