"""From the options of a demo to a model that is ready, with every slow thing done before anybody waits for it."""

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
    """The model of these options, warmed up. The number of torch's threads counts for the whole process from then on.

    Raises:
        WeightsError: saying what is wrong with the weights or the device.
        ValueError: naming an option.
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
    """Run every part once, telling the log and whoever waits how far it is.

    Raises:
        WeightsError: one of them does not run on its device.
    """
    steps = [PrewarmStep(name, run) for name, run in model.first_runs().items()]
    report = Prewarm(steps, on_event=_tell).run()
    for error in report.failed.values():
        raise WeightsError(f"the network does not run on {str(model.device)!r}: {describe(error)}") from error


def _tell(event: PrewarmEvent) -> None:
    if event.state == "started":
        _logger.info("warming up (%d/%d): %s", event.index + 1, event.total, event.step)
        report_loading(f"Warming up: {event.step}", event.index / event.total)
