"""``python -m realtime_engine.integrations.dream.train``: from nothing to weights, with a model card."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import torch
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from .card import write_card
from .evaluation import Evaluation, Report
from .level import THEMES
from .model import torch_device
from .training import Plan, Training
from .weights import save

CHECKPOINT = "checkpoint.pt"
WEIGHTS = "dream.safetensors"


def main(arguments: Sequence[str] | None = None) -> int:
    """Train, evaluate, write. Returns an exit status."""
    options = _parser().parse_args(arguments)
    console = Console(stderr=True)
    try:
        device = torch_device(options.device)
        if device.type == "cuda" and not torch.cuda.is_available():
            raise ValueError(f"torch finds no CUDA device here, so --device {options.device} cannot be had")
        plan = Plan(
            seed=options.seed,
            dynamics_steps=options.dynamics_steps,
            picture_steps=options.picture_steps,
            bfloat16=options.bfloat16,
        )
        options.out.mkdir(parents=True, exist_ok=True)
        report = _train(plan, device, options.out, console)
    except (ValueError, OSError) as error:
        console.print(f"error: {error}", style="red", markup=False)
        return 1
    except KeyboardInterrupt:
        console.print(f"stopped; the same command goes on from {options.out / CHECKPOINT}", markup=False)
        return 130
    console.print(f"weights and card are in {options.out}: {_summary(report)}", markup=False)
    return 0


def _train(plan: Plan, device: torch.device, out: Path, console: Console) -> Report:
    with _progress(console) as progress:
        tasks = {
            "dynamics": progress.add_task("learning to move", total=plan.dynamics_steps, loss=""),
            "pictures": progress.add_task("learning to see", total=plan.picture_steps, loss=""),
        }
        training = Training(
            plan,
            device,
            on_step=lambda part, done, loss: progress.update(tasks[part], completed=done, loss=f"loss {loss:.4f}"),
        )
        checkpoint = out / CHECKPOINT
        if checkpoint.exists():
            training.resume(checkpoint)
            progress.update(tasks["dynamics"], completed=training.progress.dynamics)
            progress.update(tasks["pictures"], completed=training.progress.pictures)
        training.run(checkpoint)
        task = progress.add_task("evaluating", total=5, loss="")
        network = training.network.cpu().eval()
        evaluation = Evaluation(network)
        report = evaluation.run(lambda part: progress.update(task, advance=1, loss=part))
    save(out / WEIGHTS, network, {"title": "The Dream", "themes": ", ".join(THEMES)})
    write_card(out, plan, training.progress, report, evaluation.grid(), device)
    return report


def _parser() -> argparse.ArgumentParser:
    plan = Plan()
    parser = argparse.ArgumentParser(prog="python -m realtime_engine.integrations.dream.train", description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("dream"), help="folder for checkpoint, weights and card")
    parser.add_argument("--device", default="cpu", help="cpu, cuda, cuda:1 (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=plan.seed, help="of everything random (default: %(default)s)")
    parser.add_argument(
        "--dynamics-steps", type=_count, default=plan.dynamics_steps, help="batches of walks (default: %(default)s)"
    )
    parser.add_argument(
        "--picture-steps", type=_count, default=plan.picture_steps, help="batches of pictures (default: %(default)s)"
    )
    parser.add_argument(
        "--bfloat16",
        action=argparse.BooleanOptionalAction,
        default=plan.bfloat16,
        help="compute pictures in bfloat16 (default: %(default)s)",
    )
    return parser


def _count(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"expected 1 or more, got {number}")
    return number


def _progress(console: Console) -> Progress:
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[loss]}"),
        console=console,
    )


def _summary(report: Report) -> str:
    return (
        f"autoencoder {report.autoencoder_db:.1f} dB, one step {report.one_step_db:.1f} dB "
        f"(repeating: {report.repeat_db:.1f}), turns the right way in {report.turns_right:.1%} of steps"
    )


if __name__ == "__main__":
    sys.exit(main())
