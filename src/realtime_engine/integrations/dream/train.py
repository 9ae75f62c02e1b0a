"""Training command: ``python -m realtime_engine.integrations.dream.train``."""

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

if __name__ == "__main__":  # before the imports below, to report a missing extra without a traceback
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
    "Train and evaluate the dream, and write weights and a model card. Takes half an hour on two CPU cores. "
    "The same command resumes an interrupted training from its last checkpoint, written every 500 batches."
)
_SMOKE_STEPS = 4
_SMOKE_EVALUATION = {"walks": 4, "frames": 16, "pictures": 8}


def main(arguments: Sequence[str] | None = None) -> int:
    """Train, evaluate and write the results; return the exit status."""
    options = _parser().parse_args(arguments)
    console = Console(stderr=True)
    try:
        require("safetensors", "torch", "write weights")
        device, plan = _device(options.device), _plan(options)
        with _output_folder(options.out):
            training, checkpoint = Training(plan, device), options.out / CHECKPOINT
            if checkpoint.exists():
                training.resume(checkpoint)
            report = _train(training, options.out, console, _SMOKE_EVALUATION if options.smoke else {})
    except (ValueError, OSError, MissingDependencyError, FloatingPointError, torch.cuda.OutOfMemoryError) as error:
        console.print(f"error: {error}", style="red", markup=False)
        return 1
    except KeyboardInterrupt as interrupt:
        console.print(f"stopped; the same command {_next_start(options.out / CHECKPOINT)}", markup=False)
        return exit_code(interrupt)
    console.print(f"weights and model card are in {options.out}: {_summary(report)}", markup=False)
    return 0


@contextlib.contextmanager
def _output_folder(out: Path) -> Iterator[None]:
    """Create and lock the output folder.

    Raises:
        OSError: the folder is not writable; checked now rather than at the first checkpoint.
        ValueError: another training holds the lock.
    """
    out.mkdir(parents=True, exist_ok=True)
    tempfile.TemporaryFile(dir=out).close()
    if sys.platform == "win32":  # Windows cannot open folders
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
        raise ValueError(f"another training writes to {out}: wait for it or choose another folder") from None
    except OSError as error:  # the file system does not support locks
        _logger.info("%s cannot be locked (%s): make sure that no other training writes to it", out, error)


def _device(name: str) -> torch.device:
    device = torch_device(name)
    if device.type not in ("cpu", "cuda"):
        raise ValueError(f"--device must be cpu, cuda or cuda:NUMBER, got {name!r}")
    found = torch.cuda.device_count()
    if device.type == "cuda" and (device.index or 0) >= found:
        raise ValueError(f"--device {name} is not available: the number of CUDA devices found is {found}")
    return device


def _plan(options: argparse.Namespace) -> Plan:
    return Plan(
        seed=options.seed,
        dynamics_steps=_SMOKE_STEPS if options.smoke else options.dynamics_steps,
        picture_steps=_SMOKE_STEPS if options.smoke else options.picture_steps,
        bfloat16=options.bfloat16,
    )


def _train(training: Training, out: Path, console: Console, sizes: Mapping[str, int]) -> Report:
    """Finish the plan, evaluate with the given sizes, and write all results to ``out``."""
    plan, done = training.plan, training.progress
    with _progress(console) as progress:
        tasks = {
            "dynamics": progress.add_task(
                "training dynamics", total=plan.dynamics_steps, completed=done.dynamics, note=""
            ),
            "pictures": progress.add_task(
                "training pictures", total=plan.picture_steps, completed=done.pictures, note=""
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
    parser.add_argument("--seed", type=int, default=plan.seed, help="seed of all random numbers (default: %(default)s)")
    parser.add_argument(
        "--dynamics-steps",
        type=int,
        default=plan.dynamics_steps,
        help="batches of walks for the dynamics (default: %(default)s)",
    )
    parser.add_argument(
        "--picture-steps",
        type=int,
        default=plan.picture_steps,
        help="batches of pictures for encoder, light field and decoder (default: %(default)s)",
    )
    parser.add_argument(
        "--bfloat16",
        action=argparse.BooleanOptionalAction,
        default=plan.bfloat16,
        help="train on pictures in bfloat16 (default: %(default)s)",
    )
    parser.add_argument(
        "--smoke",
        action="store_true",
        help=f"check that everything runs: {_SMOKE_STEPS} batches of each part and a short evaluation",
    )
    return parser


def _next_start(checkpoint: Path) -> str:
    return f"resumes from {checkpoint}" if checkpoint.exists() else "starts over, because no checkpoint was written"


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
        f"(repeating: {report.repeat_db:.1f}), correct turning direction in {report.turns_right:.1%} of steps"
    )


if __name__ == "__main__":
    status = main()
    if status > 128:  # a worker thread may still run, which aborts the process at interpreter shutdown
        os._exit(status)
    sys.exit(status)
