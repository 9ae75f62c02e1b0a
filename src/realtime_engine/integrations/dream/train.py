"""``python -m realtime_engine.integrations.dream.train``: from nothing to weights, with a model card."""

from __future__ import annotations

import argparse
import contextlib
import logging
import os
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from ...infra.extras import MissingDependencyError, require
from ...infra.signals import exit_code, raise_on_signals

if __name__ == "__main__":  # before anything is imported that cannot be without: a sentence is better than a trace
    raise_on_signals()
    try:
        require("torch", "torch", "train")
        require("rich", "serve", "train")
    except MissingDependencyError as missing:
        sys.exit(f"error: {missing}")

import torch
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from .level import THEMES
from .model import torch_device
from .training.card import write_card
from .training.evaluation import PARTS, Evaluation, Report
from .training.plan import Plan
from .training.trainer import Training
from .weights import save

if sys.platform != "win32":
    import fcntl

_logger = logging.getLogger(__name__)

CHECKPOINT = "checkpoint.pt"
WEIGHTS = "dream.safetensors"

_ABOUT = (
    "Train the dream from nothing, evaluate it, and write weights and a model card: half an hour on two CPU cores. "
    "Stopped, the same command goes on from its last checkpoint, of which it writes one every 500 batches."
)
_SMOKE_STEPS = 4
_SMOKE_EVALUATION = {"walks": 4, "frames": 16, "pictures": 8}


def main(arguments: Sequence[str] | None = None) -> int:
    """Train, evaluate, write. Returns an exit status."""
    options = _parser().parse_args(arguments)
    console = Console(stderr=True)
    try:
        require("safetensors", "torch", "write weights")
        device, plan = _device(options.device), _plan(options)
        with _own(options.out):
            training, checkpoint = Training(plan, device), options.out / CHECKPOINT
            if checkpoint.exists():
                training.resume(checkpoint)
            report = _train(training, options.out, console, _SMOKE_EVALUATION if options.smoke else {})
    except (ValueError, OSError, MissingDependencyError, FloatingPointError, torch.cuda.OutOfMemoryError) as error:
        console.print(f"error: {error}", style="red", markup=False)
        return 1
    except KeyboardInterrupt as interrupt:
        console.print(f"stopped; the same command {_onward(options.out / CHECKPOINT)}", markup=False)
        return exit_code(interrupt)
    console.print(f"weights and card are in {options.out}: {_summary(report)}", markup=False)
    return 0


@contextlib.contextmanager
def _own(out: Path) -> Iterator[None]:
    """The folder, there and for this training alone.

    Errors: :class:`OSError`, at once and not after the first round, where nothing can be written; :class:`ValueError`
    where another training writes.
    """
    out.mkdir(parents=True, exist_ok=True)
    tempfile.TemporaryFile(dir=out).close()
    if sys.platform == "win32":  # which opens no folders
        yield
        return
    folder = os.open(out, os.O_RDONLY)
    try:
        _lock(folder, out)
        yield
    finally:
        os.close(folder)


def _lock(folder: int, out: Path) -> None:
    try:
        fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise ValueError(f"another training writes into {out}: wait for it, or give another folder") from None
    except OSError as error:  # a file system without locks
        _logger.info("%s cannot be locked (%s): let no other training write there", out, error)


def _device(name: str) -> torch.device:
    device = torch_device(name)
    if device.type not in ("cpu", "cuda"):
        raise ValueError(f"--device must be cpu, cuda or cuda:NUMBER, got {name!r}")
    found = torch.cuda.device_count()
    if device.type == "cuda" and (device.index or 0) >= found:
        raise ValueError(f"--device {name} cannot be had: the number of CUDA devices that torch finds here is {found}")
    return device


def _plan(options: argparse.Namespace) -> Plan:
    return Plan(
        seed=options.seed,
        dynamics_steps=_SMOKE_STEPS if options.smoke else options.dynamics_steps,
        picture_steps=_SMOKE_STEPS if options.smoke else options.picture_steps,
        bfloat16=options.bfloat16,
    )


def _train(training: Training, out: Path, console: Console, sizes: Mapping[str, int]) -> Report:
    """Learn what is left of the plan, evaluate with these sizes, write everything into ``out``."""
    plan, done = training.plan, training.progress
    with _progress(console) as progress:
        tasks = {
            "dynamics": progress.add_task(
                "learning to move", total=plan.dynamics_steps, completed=done.dynamics, note=""
            ),
            "pictures": progress.add_task(
                "learning to see", total=plan.picture_steps, completed=done.pictures, note=""
            ),
        }
        training.run(
            out / CHECKPOINT,
            on_step=lambda part, step, loss: progress.update(tasks[part], completed=step, note=f"loss {loss:.4f}"),
        )
        task = progress.add_task("evaluating", total=len(PARTS), note="")
        network = training.network.cpu().eval()
        evaluation = Evaluation(network, **sizes)
        report = evaluation.run(lambda part: progress.update(task, completed=PARTS.index(part), note=part))
        progress.update(task, completed=len(PARTS), note="")
    save(out / WEIGHTS, network, {"title": "The Dream", "themes": ", ".join(THEMES)})
    write_card(out, plan, done, report, evaluation.grid(), training.device)
    return report


def _parser() -> argparse.ArgumentParser:
    plan = Plan()
    parser = argparse.ArgumentParser(prog="python -m realtime_engine.integrations.dream.train", description=_ABOUT)
    parser.add_argument(
        "--out", type=Path, default=Path("dream"), help="folder for checkpoint, weights and card (default: %(default)s)"
    )
    parser.add_argument("--device", default="cpu", help="cpu, cuda, cuda:1 (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=plan.seed, help="of everything random (default: %(default)s)")
    parser.add_argument(
        "--dynamics-steps", type=int, default=plan.dynamics_steps, help="batches of walks (default: %(default)s)"
    )
    parser.add_argument(
        "--picture-steps", type=int, default=plan.picture_steps, help="batches of pictures (default: %(default)s)"
    )
    parser.add_argument(
        "--bfloat16",
        action=argparse.BooleanOptionalAction,
        default=plan.bfloat16,
        help="compute pictures in bfloat16 (default: %(default)s)",
    )
    parser.add_argument(
        "--smoke",
        action="store_true",
        help=f"see whether all of it runs here: {_SMOKE_STEPS} batches of each, and a short evaluation",
    )
    return parser


def _onward(checkpoint: Path) -> str:
    return f"goes on from {checkpoint}" if checkpoint.exists() else "begins anew, since no round was finished"


def _progress(console: Console) -> Progress:
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[note]}"),
        console=console,
    )


def _summary(report: Report) -> str:
    return (
        f"autoencoder {report.autoencoder_db:.1f} dB, one step {report.one_step_db:.1f} dB "
        f"(repeating: {report.repeat_db:.1f}), turns the right way in {report.turns_right:.1%} of steps"
    )


if __name__ == "__main__":
    status = main()
    if status > 128:  # a thread may be at work yet, which the interpreter's own end would abort
        os._exit(status)
    sys.exit(status)
