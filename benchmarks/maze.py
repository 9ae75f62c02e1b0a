"""What does a frame of the maze cost, batched over sessions, beside a plain loop over columns?

    python benchmarks/maze.py [--json FILE]

Both walk the same path at 640x360: the engine with 1, 4 and 8 sessions (motion and render; a step divided by its
sessions), the plain renderer one world at a time, without orbs. ``cpu`` is the process's mean CPU time, which says more
than the clock where the machine has other work.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from tests.integrations.maze.reference import ReferenceRenderer

from realtime_engine.core.composed import ComposedEngine
from realtime_engine.core.contract import SessionInit
from realtime_engine.integrations.maze.model import MazeModel
from realtime_engine.integrations.maze.motion import Motion, MotionControls, first_visitor
from realtime_engine.integrations.maze.palette import theme_of
from realtime_engine.integrations.maze.world import make_world

WIDTH, HEIGHT, FPS = 640, 360, 30.0
BATCHES = (1, 4, 8)
WARM_UP, STEPS, PLAIN_STEPS = 3, 150, 8


def conditioning(step: int) -> dict[str, Any]:
    return {"forward": 1.0, "turn": (0.0, 0.6, 0.0, -0.6)[step // 30 % 4]}


@dataclass(frozen=True)
class Times:
    """Milliseconds a frame."""

    median: float
    p95: float
    cpu: float


def engine_times(sessions: int) -> Times:
    engine = ComposedEngine(MazeModel(sessions, WIDTH, HEIGHT, FPS), pipeline=False)
    names = [f"session-{index}" for index in range(sessions)]
    for seed, name in enumerate(names):
        engine.attach(SessionInit(name, {"seed": seed}))

    def advance(step: int) -> None:
        engine.step(dict.fromkeys(names, conditioning(step)))

    return timed(advance, STEPS, frames=sessions)


def plain_times() -> Times:
    world, motion = make_world(0), Motion(1 / FPS)
    renderer = ReferenceRenderer(world, theme_of(""), WIDTH, HEIGHT)
    visitors, solid = first_visitor(world)[None].copy(), world.grid.solid.reshape(1, -1)

    def advance(step: int) -> None:
        motion.walk(visitors, MotionControls([conditioning(step)]), solid)
        renderer.render(visitors[0])

    return timed(advance, PLAIN_STEPS, frames=1)


def timed(advance: Callable[[int], None], steps: int, frames: int) -> Times:
    for step in range(WARM_UP):
        advance(step)
    spent = []
    cpu_began = time.process_time()
    for step in range(WARM_UP, WARM_UP + steps):
        began = time.perf_counter()
        advance(step)
        spent.append((time.perf_counter() - began) * 1e3 / frames)
    cpu = (time.process_time() - cpu_began) * 1e3 / (steps * frames)
    median, p95 = np.percentile(spent, (50, 95)).tolist()
    return Times(round(median, 3), round(p95, 3), round(cpu, 3))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the numbers here as well")
    arguments = parser.parse_args()
    runs = {f"batched, {sessions} sessions": engine_times(sessions) for sessions in BATCHES}
    runs["plain loop over columns"] = plain_times()
    print(f"{f'ms a frame, {WIDTH}x{HEIGHT}':<28}{'median':>9}{'p95':>9}{'cpu':>9}")
    for name, times in runs.items():
        print(f"{name:<28}{times.median:>9.2f}{times.p95:>9.2f}{times.cpu:>9.2f}")
    if arguments.json is not None:
        report = {
            "unit": "ms a frame",
            "width": WIDTH,
            "height": HEIGHT,
            "runs": {n: asdict(t) for n, t in runs.items()},
        }
        arguments.json.write_text(json.dumps(report, indent=2) + "\n")


if __name__ == "__main__":
    main()
