"""The part of ``gpu_check`` that runs the dream: does the network on the device dream what it dreams on the CPU?"""

from __future__ import annotations

import statistics
import time
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from realtime_engine import ComposedEngine, SessionInit
from realtime_engine.integrations.dream.model import DreamModel
from realtime_engine.integrations.dream.training.plan import Plan
from realtime_engine.integrations.dream.training.trainer import Training
from realtime_engine.integrations.dream.weights import Weights

_STEPS = 30
_SESSIONS = 4
_MAX_OFF = 1.0  # levels of 255, mean over a picture: matrix products round otherwise on another device


def walk(device: str, sessions: list[int], **options: Any) -> list[dict[str, NDArray[np.uint8]]]:
    """The chunks of each step of a batch of _SESSIONS rows, of which those of ``sessions`` are taken."""
    engine = ComposedEngine(DreamModel(Weights(), _SESSIONS, device=device, **options), pipeline=False)
    for session in sessions:
        engine.attach(SessionInit(str(session), {"seed": session}))
    chunks = []
    for step in range(_STEPS):
        results = engine.step({str(session): wanted(session, step) for session in sessions})
        chunks.append({result.session_id: result.output for result in results})
    return chunks


def wanted(session: int, step: int) -> Mapping[str, float]:
    return {"forward": float((session + step) % 3 > 0), "turn": 1.0 - (session + step // 10) % 3}


def check_same_dream(device: str) -> tuple[bool, str]:
    there, here = walk(device, [0, 1]), walk("cpu", [0, 1])
    off = [
        np.abs(chunk.astype(int) - other[session]).mean()
        for chunks, other in zip(there, here, strict=True)
        for session, chunk in chunks.items()
    ]
    return max(off) <= _MAX_OFF, f"{max(off):.3f} levels of 255 off at most, mean of a picture"


def check_company(device: str) -> tuple[bool, str]:
    alone, together = walk(device, [2]), walk(device, list(range(_SESSIONS)))
    same = all(np.array_equal(a["2"], b["2"]) for a, b in zip(alone, together, strict=True))
    return same, "the same bits" if same else "other bits in company"


def check_speed(device: str) -> tuple[bool, str]:
    times = {sessions: step_ms(device, sessions) for sessions in (1, 4, 16)}
    shown = ", ".join(f"{sessions}: {ms:.2f} ms" for sessions, ms in times.items())
    return times[16] < 16 * times[1], f"a step by sessions, {shown}"


def step_ms(device: str, sessions: int) -> float:
    engine = ComposedEngine(DreamModel(Weights(), sessions, device=device), pipeline=False)
    for session in range(sessions):
        engine.attach(SessionInit(str(session), {"seed": session}))
    times = []
    for step in range(25):
        due = {str(session): wanted(session, step) for session in range(sessions)}
        began = time.perf_counter()
        engine.step(due)  # ends with pictures on the host
        times.append(time.perf_counter() - began)
    return statistics.median(times[5:]) * 1e3


def check_training(device: str) -> tuple[bool, str]:
    batches = 20
    training = Training(Plan(dynamics_steps=batches, picture_steps=batches, round=batches), torch.device(device))
    began = time.perf_counter()
    training.run()
    seconds = time.perf_counter() - began
    losses = {name: values[-1] for name, values in training.progress.losses.items()}
    return bool(np.isfinite(list(losses.values())).all()), f"{2 * batches} batches of training in {seconds:.1f} s"


def check_dream(device: str) -> bool:
    """Print the table; whether all held."""
    checks = {
        "dream, beside the CPU": check_same_dream,
        "dream, alone and in company": check_company,
        "dream, speed": check_speed,
        "dream, training": check_training,
    }
    held = True
    for name, check in checks.items():
        ok, text = check(device)
        held &= ok
        print(f"{name:30}{'' if ok else 'NOT HELD: '}{text}")
    return held
