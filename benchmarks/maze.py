"""What does a frame of the maze cost, batched over sessions, beside a plain loop over columns?

    python benchmarks/maze.py [--json FILE]

Both walk the same path at 640x360: the engine with 1, 4 and 8 sessions (motion and render, median and 95th percentile of
a step, divided by the sessions), the plain renderer one world at a time, without orbs.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from realtime_engine.core.composed import ComposedEngine
from realtime_engine.core.contract import SessionInit
from realtime_engine.integrations.maze import MazeModel
from realtime_engine.integrations.maze.motion import Controls, Motion, first_visitor
from realtime_engine.integrations.maze.palette import theme_of
from realtime_engine.integrations.maze.reference import ReferenceRenderer
from realtime_engine.integrations.maze.world import make_world

WIDTH, HEIGHT, FPS = 640, 360, 30.0
BATCHES = (1, 4, 8)
WARM_UP, STEPS, PLAIN_STEPS = 10, 150, 12


def conditioning(step: int) -> dict[str, Any]:
    return {"forward": 1.0, "turn": (0.0, 0.6, 0.0, -0.6)[step // 30 % 4]}


def engine_times(sessions: int) -> list[float]:
    """Milliseconds a frame."""
    engine = ComposedEngine(MazeModel(sessions, WIDTH, HEIGHT, FPS), pipeline=False)
    names = [f"session-{index}" for index in range(sessions)]
    for seed, name in enumerate(names):
        engine.attach(SessionInit(name, {"seed": seed}))

    def advance(step: int) -> None:
        engine.step(dict.fromkeys(names, conditioning(step)))

    return [spent / sessions for spent in timed(advance, STEPS)]


def plain_times() -> list[float]:
    world, motion = make_world(0), Motion(1 / FPS)
    renderer = ReferenceRenderer(world, theme_of(""), WIDTH, HEIGHT)
    visitors, solid = first_visitor(world)[None].copy(), world.grid.solid.reshape(1, -1)

    def advance(step: int) -> None:
        motion.walk(visitors, Controls([conditioning(step)]), solid)
        renderer.render(visitors[0])

    return timed(advance, PLAIN_STEPS)


def timed(advance: Callable[[int], None], steps: int) -> list[float]:
    spent = []
    for step in range(WARM_UP + steps):
        began = time.perf_counter()
        advance(step)
        spent.append((time.perf_counter() - began) * 1e3)
    return spent[WARM_UP:]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the numbers here as well")
    arguments = parser.parse_args()
    runs = {f"batched, {sessions} sessions": engine_times(sessions) for sessions in BATCHES}
    runs["plain loop over columns"] = plain_times()
    print(f"{'ms a frame, ' + f'{WIDTH}x{HEIGHT}':<28}{'median':>9}{'p95':>9}")
    rows = []
    for name, times in runs.items():
        median, p95 = np.percentile(times, (50, 95)).round(3).tolist()
        rows.append({"run": name, "median_ms": median, "p95_ms": p95})
        print(f"{name:<28}{median:>9.2f}{p95:>9.2f}")
    if arguments.json is not None:
        arguments.json.write_text(json.dumps({"width": WIDTH, "height": HEIGHT, "runs": rows}, indent=2) + "\n")


if __name__ == "__main__":
    main()
