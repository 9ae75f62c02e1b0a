"""How many can dream at once, which engine carries them best, and where does the time go?

    python benchmarks/dream.py [--json FILE] [--quick] [--weights PATH]

480x320, one frame a chunk, all on the CPU; the medians of rounds in which everything is measured in turn, so that a
drift of the machine touches all alike.

- Sessions: frames per second of all sessions together when nobody waits for a clock. The baseline of each row is a
  batch that is as large as there are sessions, in ``ComposedEngine`` without a pipeline; the other columns are ratios
  to it. Pipelined, DEFERRED works on a thread of its own beside HOT. The stage graph computes all rows for every batch
  that its stages happen to gather, or only those that are due. The batch of 8 has room for 8 whoever is there.
  Replicas: as many engines of one row as there are sessions, one after the other.
- Live: chunks at 15 frames per second by the serve loop. RTF is the 95th percentile of the time between two chunks of a
  session over what a chunk plays; above 1 a player without a buffer sees it.
- Parts: by torch's profiler, which slows operations down; read the shares. They say what a batch of four saves, and
  what not.
- Joining: the first chunk of somebody who stands where nobody has stood before, and the longest gap of two residents.
- Memory: of what a further session adds, in a process of its own.
- Compiler: ``torch.compile`` with an empty cache, if a C++ compiler is there; not with ``--quick``.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from dream_rig.apart import MEASURES, apart
from dream_rig.live import Joining, live_points, measure_joining
from dream_rig.parts import PARTS, Profile, profile_parts
from dream_rig.sessions import PIPELINED, PLAIN, STAGES, STAGES_DUE, WAYS, Flow, Ways
from realtime_engine.core.composed import ComposedEngine
from realtime_engine.infra.offline import CapacityPoint
from realtime_engine.integrations.dream.demo import demo
from realtime_engine.integrations.dream.weights import SHIPPED, Weights
from realtime_engine.integrations.dream_stages.pipeline import build_engine

ROWS = 4
_FRESH_SEED = 100_000
Flows = dict[int, dict[str, Flow]]


def measure_flows(ways: Ways, counts: tuple[int, ...], seconds: float, rounds: int) -> Flows:
    """Sessions -> way -> medians."""
    flows: Flows = {}
    for sessions in counts:
        tables = {way: ways.open(way, sessions) for way in WAYS}
        measured = [{way: table.run(seconds) for way, table in tables.items()} for _ in range(rounds)]
        flows[sessions] = {way: median([flows[way] for flows in measured]) for way in WAYS}
        for table in tables.values():
            table.close()
    return flows


def median(flows: list[Flow]) -> Flow:
    return Flow(*(statistics.median(getattr(flow, field) for flow in flows) for field in ("fps", "step_ms", "cpu_ms")))


def print_flows(flows: Flows) -> None:
    print(f"{'frames per second, by sessions':<34}" + "".join(f"{sessions:>9}" for sessions in flows))
    for title, field in (("fps", "fps"), ("ms a chunk of all", "step_ms"), ("CPU ms a frame", "cpu_ms")):
        values = "".join(f"{getattr(of[PLAIN], field):>9.2f}" for of in flows.values())
        print(f"{f'{PLAIN} (baseline), {title}':<34}{values}")
    for way in WAYS[1:]:
        ratios = "".join(f"{of[way].fps / of[PLAIN].fps:>8.2f}x" for of in flows.values())
        print(f"{way:<34}{ratios}")
    print(which_wins(flows))


def which_wins(flows: Flows) -> str:
    """One sentence."""
    found = []
    for sessions, of in flows.items():
        best = max((PLAIN, PIPELINED, STAGES, STAGES_DUE), key=lambda way: of[way].fps)
        lead = of[best].fps / of[PLAIN].fps
        found.append(f"{sessions}: {best}" + ("" if best == PLAIN else f" ({lead:.2f} times the plain batch)"))
    return f"Fastest, by sessions: {'; '.join(found)}."


def print_batching(flows: Flows, profiles: dict[int, Profile]) -> None:
    one, four = profiles[1], profiles[ROWS]
    total = sum(four.parts.values())
    print(f"\n{'ms a chunk, by rows':<34}{1:>9}{ROWS:>9}{'a row':>9}{'share':>9}")
    for part in PARTS:
        alone, together = one.parts[part], four.parts[part]
        saved = f"{together / ROWS / alone:>8.2f}x" if alone > 0 else f"{'':>9}"
        print(f"{part:<34}{alone:>9.2f}{together:>9.2f}{saved}{together / total:>9.0%}")
    largest = max(PARTS, key=lambda part: four.parts[part])
    gain = flows[ROWS][PLAIN].fps / flows[1][PLAIN].fps
    operations = ", ".join(f"{name} {share:.0%}" for name, share in four.operations.items())
    print(
        f"A batch of {ROWS} makes {gain:.2f} times the frames of a batch of 1. The most of its time goes into the "
        f"{largest} ({four.parts[largest] / total:.0%}); of all operations: {operations}."
    )


def print_live(live: dict[str, list[CapacityPoint]], joining: dict[str, Joining]) -> None:
    print(f"\n{'live at 15 fps':<34}{'sessions':>9}{'p50 [ms]':>9}{'p95 [ms]':>9}{'RTF':>9}{'missed':>9}")
    for name, points in live.items():
        for point in points:
            shown = f"{point.p50_ms:>9.1f}{point.p95_ms:>9.1f}{point.rtf:>9.2f}{point.miss_share:>9.1%}"
            print(f"{name:<34}{point.sessions:>9}{shown}")
    print(f"\n{'somebody joins [ms]':<34}{'to first':>9}{'gap':>9}{'else p95':>9}")
    for name, times in joining.items():
        print(f"{name:<34}{times.first_chunk:>9.0f}{times.longest_gap:>9.0f}{times.usual_gap:>9.0f}")


def print_rest(memory: dict[str, dict[str, float]], compiled: dict[str, float] | None) -> None:
    print(f"\n{'memory of a further session [kB]':<34}{'rows':>9}{'process':>9}")
    for name, figures in memory.items():
        rows = f"{figures['rows']:>9.2f}" if name == PLAIN else f"{'':>9}"
        print(f"{name:<34}{rows}{figures['growth']:>9.0f}")
    if compiled is not None:
        print(f"\n{f'compiler, {ROWS} rows':<34}{'ready [s]':>10}{'step [ms]':>10}")
        for name in ("plain", "compiled"):
            print(f"{name:<34}{compiled[f'{name}, warm-up [s]']:>10.1f}{compiled[f'{name}, step [ms]']:>10.2f}")


def measure(path: Path, quick: bool) -> dict[str, Any]:
    """Everything, printed as it comes."""
    weights = Weights(path)
    ways = Ways(weights)
    flows = measure_flows(ways, (1, ROWS) if quick else (1, 2, ROWS, 8), 0.1 if quick else 0.3, 1 if quick else 3)
    print_flows(flows)
    profiles = {rows: profile_parts(weights, rows, 5 if quick else 40) for rows in (1, ROWS)}
    print_batching(flows, profiles)
    engines = {
        PLAIN: lambda: ComposedEngine(ways.model(ROWS), pipeline=False),
        STAGES: lambda: build_engine(ways.model(ROWS)),
        STAGES_DUE: lambda: build_engine(ways.model(ROWS, "occupied")),
    }
    served = (PLAIN, STAGES) if quick else tuple(engines)
    live = {name: live_points(engines[name](), demo, 0.4 if quick else 1.5, 1 if quick else ROWS) for name in served}
    joins, rest_s = (1, 0.3) if quick else (4, 0.6)
    joining = {
        name: measure_joining(engines[name](), joins, rest_s, seed)
        for name, seed in zip(served[:2], (_FRESH_SEED, 2 * _FRESH_SEED), strict=True)
    }
    print_live(live, joining)
    memory = {PLAIN: apart("memory-batch", path)}
    if not quick:
        memory["replicas"] = apart("memory-replicas", path)
    compiled = None if quick or not can_compile() else apart("compile", path)
    print_rest(memory, compiled)
    return {
        "threads": torch.get_num_threads(),
        "flows": {sessions: {way: asdict(flow) for way, flow in of.items()} for sessions, of in flows.items()},
        "fastest": which_wins(flows),
        "profiles": {rows: asdict(profile) for rows, profile in profiles.items()},
        "live": {name: [asdict(point) for point in points] for name, points in live.items()},
        "joining": {name: asdict(times) for name, times in joining.items()},
        "memory": memory,
        "compiler": compiled,
    }


def can_compile() -> bool:
    return shutil.which(os.environ.get("CXX", "g++")) is not None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures here as well")
    parser.add_argument("--quick", action="store_true", help="one short round, to see that everything runs")
    parser.add_argument("--weights", type=Path, default=SHIPPED, metavar="PATH", help="a weight file of your own")
    parser.add_argument("--apart", choices=MEASURES, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.apart is not None:
        print(json.dumps(MEASURES[arguments.apart](Weights(arguments.weights))))
        return
    figures = measure(arguments.weights.resolve(), arguments.quick)
    if arguments.json is not None:
        arguments.json.write_text(json.dumps(figures, indent=2) + "\n")


if __name__ == "__main__":
    main()
