"""What needs a process of its own: memory, and the compiler with an empty cache."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import torch

from realtime_engine.core.composed import ComposedEngine
from realtime_engine.core.contract import RealtimeInterface, SessionInit
from realtime_engine.core.replica import ReplicaEngine
from realtime_engine.integrations.dream.building import warm_up
from realtime_engine.integrations.dream.model import DreamModel
from realtime_engine.integrations.dream.weights import Weights

from .sessions import WALK, Stepped

Figures = dict[str, float]
SESSIONS = 8
_ROWS = 4
_SECONDS = 0.3


def apart(what: str, weights: Path) -> Figures:
    """Have one of :data:`MEASURES` made in another process."""
    with tempfile.TemporaryDirectory() as cache:
        done = subprocess.run(
            [sys.executable, sys.argv[0], "--apart", what, "--weights", str(weights)],
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "TORCHINDUCTOR_CACHE_DIR": cache},
            check=False,
        )
    if done.returncode:
        raise SystemExit(f"measuring {what} failed")
    return dict(json.loads(done.stdout.splitlines()[-1]))


def measure_memory(weights: Weights, replicas: bool) -> Figures:
    """Kilobytes a session: how much the process grew by sessions 2 to 8, and what their rows take."""

    def child() -> RealtimeInterface:
        return ComposedEngine(DreamModel(weights, 1), pipeline=False)

    model = DreamModel(weights, SESSIONS)
    engine = ReplicaEngine(child, max_sessions=SESSIONS) if replicas else ComposedEngine(model, pipeline=False)
    names = [f"walker-{index}" for index in range(SESSIONS)]

    def walk(names: list[str]) -> None:
        for name in names:
            engine.attach(SessionInit(name, {"seed": 1}))
        for _ in range(10):
            engine.step(dict.fromkeys(names, WALK))

    walk(names[:1])
    before = resident_kb()
    walk(names)
    rows = sum(value.nbytes for value in vars(model).values() if isinstance(value, torch.Tensor | np.ndarray))
    return {"growth": (resident_kb() - before) / (SESSIONS - 1), "rows": rows / SESSIONS / 1e3}


def resident_kb() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e3


def measure_compile(weights: Weights) -> Figures:
    """Seconds until a model is ready, and milliseconds of a step, without and with the compiler."""
    logging.basicConfig()  # if it does not compile after all, torch's reason belongs beside the figures
    figures: Figures = {}
    tables = {}
    for name, compile in (("plain", False), ("compiled", True)):
        began = time.perf_counter()
        model = DreamModel(weights, _ROWS, compile=compile)
        warm_up(model)
        figures[f"{name}, warm-up [s]"] = time.perf_counter() - began
        tables[name] = Stepped(ComposedEngine(model, pipeline=False), _ROWS)
    rounds = [{name: table.run(_SECONDS).step_ms for name, table in tables.items()} for _ in range(3)]
    for name in tables:
        figures[f"{name}, step [ms]"] = float(np.median([figures[name] for figures in rounds]))
    return figures


MEASURES = {
    "memory-batch": lambda weights: measure_memory(weights, replicas=False),
    "memory-replicas": lambda weights: measure_memory(weights, replicas=True),
    "compile": measure_compile,
}
