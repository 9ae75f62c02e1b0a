"""Builds a :class:`~.model.DreamModel` from the options of the demo and warms it up."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import torch

from ...core.errors import describe
from ...infra.acceleration import Prewarm, PrewarmEvent, PrewarmStep
from ...infra.loading import report_loading
from .model import DreamModel
from .weights import SHIPPED, Weights, WeightsError

if TYPE_CHECKING:
    from .demo import Options

_logger = logging.getLogger(__name__)


def build_model(options: Options) -> DreamModel:
    """Build and warm up the model. Sets the number of torch threads of the whole process.

    Raises:
        WeightsError: the weights are unusable or do not run on the device.
        ValueError: an option is invalid.
    """
    torch.set_num_threads(options.threads)
    report_loading("Reading the weights")
    model = DreamModel(
        weights=Weights(options.weights or SHIPPED),
        max_sessions=options.max_sessions,
        height=options.height,
        width=options.width,
        fps=options.fps,
        frames_per_chunk=options.frames_per_chunk,
        device=options.device,
        rows=options.rows,
        compile=options.compile,
    )
    warm_up(model)
    return model


def warm_up(model: DreamModel) -> None:
    """Run every part once and report the progress to the log and the loading page.

    Raises:
        WeightsError: a part does not run on its device.
    """
    steps = [PrewarmStep(name, run) for name, run in model.first_runs().items()]
    report = Prewarm(steps, on_event=_report_progress).run()
    for error in report.failed.values():
        raise WeightsError(f"the network does not run on {str(model.device)!r}: {describe(error)}") from error


def _report_progress(event: PrewarmEvent) -> None:
    if event.state == "started":
        _logger.info("warming up (%d/%d): %s", event.index + 1, event.total, event.step)
        report_loading(f"Warming up: {event.step}", event.index / event.total)
