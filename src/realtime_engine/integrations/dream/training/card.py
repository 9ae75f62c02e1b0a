"""Writes the model card: training data and settings, measured quality, loss curves, limits."""

from __future__ import annotations

import json
import math
import platform
from dataclasses import asdict
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image

from ..network import DreamNetwork
from .evaluation import GRID_CHOICE, Report, grid_frames
from .plan import Plan, Progress

CARD, CURVES, GRID, NUMBERS = "MODEL_CARD.md", "losses.svg", "rollouts.png", "report.json"

_CURVES = {
    "dynamics": "dynamics",
    "autoencoder": "autoencoder (MSE)",
    "rendering": "rendering (MSE)",
    "place": "place",
}
_TEMPLATE = Path(__file__).parent / "card_template.md"
_COLORS = ("#d8402f", "#3565e0", "#35b558", "#c07a10")
_WIDTH, _HEIGHT, _MARGIN = 640, 280, 40


def write_card(
    folder: Path, plan: Plan, progress: Progress, report: Report, grid: NDArray[np.uint8], device: torch.device
) -> None:
    """Write the card, the loss curves, the picture grid and all figures as JSON (null if infinite) to ``folder``."""
    Image.fromarray(grid).save(folder / GRID)
    (folder / CURVES).write_text(curves(progress.losses, progress.dynamics, progress.pictures), encoding="utf-8")
    measured = {name: None if value == math.inf else value for name, value in asdict(report).items()}
    numbers = {"plan": asdict(plan), "report": measured, "minutes": progress.minutes}
    (folder / NUMBERS).write_text(json.dumps(numbers, indent=1) + "\n", encoding="utf-8")
    (folder / CARD).write_text(card(plan, progress, report, device), encoding="utf-8")


def card(plan: Plan, progress: Progress, report: Report, device: torch.device) -> str:
    """Return the card as Markdown."""
    drift = "\n".join(
        f"| {frame} | {report.drift_db[frame]:.1f} | {report.drift_cells[frame]:.3f} |" for frame in report.drift_db
    )
    return _TEMPLATE.read_text(encoding="utf-8").format(
        plan=plan,
        report=report,
        drift=drift,
        minutes=progress.minutes,
        command=_command(plan),
        where=f"{device.type}, {torch.get_num_threads()} threads, torch {torch.__version__}, {platform.machine()}",
        gain=report.one_step_db - report.repeat_db,
        standing="the same picture, bit for bit" if math.isinf(report.standing_db) else f"{report.standing_db:.1f} dB",
        walks=plan.dynamics_steps * plan.walkers,
        pictures=plan.picture_steps * plan.pictures,
        turning=report.frames // 2,
        shown=", ".join(map(str, grid_frames(report.frames))),
        curves=CURVES,
        grid=GRID,
        parameters=_count(plan) / 1e6,
        choice=GRID_CHOICE,
    )


def _command(plan: Plan) -> str:
    """Return the command that repeats the training; other settings have no option."""
    precision = "" if plan.bfloat16 else " --no-bfloat16"
    return (
        f"python -m realtime_engine.integrations.dream.train --seed {plan.seed} "
        f"--dynamics-steps {plan.dynamics_steps} --picture-steps {plan.picture_steps}{precision}"
    )


def _count(plan: Plan) -> int:
    with torch.device("meta"):
        return sum(tensor.numel() for tensor in DreamNetwork(plan.sizes).state_dict().values())


def curves(losses: dict[str, list[float]], dynamics: int, pictures: int) -> str:
    """Return the losses as an SVG with a logarithmic axis; each curve spans its own part of the training."""
    shown = {name: np.log10(losses[name]) for name in _CURVES if losses.get(name)}
    low, high = (f(np.concatenate(list(shown.values()))) for f in (np.min, np.max))
    lines = [_line(values, low, max(high, low + 1e-6), _COLORS[index]) for index, values in enumerate(shown.values())]
    legend = "".join(
        f'<text x="{_WIDTH - 170}" y="{20 + 16 * index}" fill="{_COLORS[index]}">{_CURVES[name]}</text>'
        for index, name in enumerate(shown)
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" font-family="sans-serif" '
        f'font-size="12">'
        f'<rect width="100%" height="100%" fill="#fff"/>{"".join(lines)}{legend}'
        f'<text x="4" y="{_MARGIN - 8}" fill="#555">{10**high:.2g}</text>'
        f'<text x="4" y="{_HEIGHT - _MARGIN}" fill="#555">{10**low:.2g}</text>'
        f'<text x="{_MARGIN}" y="{_HEIGHT - 10}" fill="#555">mean loss of each round, first to last: '
        f"{dynamics} batches of walks, {pictures} of pictures</text></svg>\n"
    )


def _line(values: NDArray[np.float64], low: float, high: float, color: str) -> str:
    x = np.linspace(_MARGIN, _WIDTH - _MARGIN, len(values)) if len(values) > 1 else np.array([_MARGIN])
    y = _HEIGHT - _MARGIN - (values - low) / (high - low) * (_HEIGHT - 2 * _MARGIN)
    points = " ".join(f"{a:.1f},{b:.1f}" for a, b in zip(x, y, strict=True))
    return f'<polyline points="{points}" fill="none" stroke="{color}" stroke-width="1.6"/>'
