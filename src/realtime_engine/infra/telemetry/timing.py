"""Latency of a frame: its milestones, the stages between them, and rolling statistics of the stages."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from ...core.statistics import WINDOW_SIZE, RollingWindow, WindowSnapshot
from ..frame import FrameId


class Milestone(enum.IntEnum):
    """Milestones of one frame for one viewer, in chronological order."""

    PRESSED = 0  # key press in the browser
    INPUT = 1  # the server received its message
    STEP_BEGIN = 2
    STEP_END = 3
    EMITTED = 4  # the chunk was put into the outbox
    PACED = 5  # the frame was published to the viewers
    ENCODED = 6
    SENT = 7  # its last packet was passed to the network
    RECEIVED = 8  # its last packet arrived
    DECODED = 9
    PRESENTED = 10  # the browser passed it to its compositor


class LatencyStage(NamedTuple):
    """The time between two milestones.

    Attributes:
        name: name of the stage.
        begin, end: the milestones.
        of_input: recorded only for the first frame that shows an input.
    """

    name: str
    begin: Milestone
    end: Milestone
    of_input: bool = False


PATH = (
    LatencyStage("uplink", Milestone.PRESSED, Milestone.INPUT, of_input=True),
    LatencyStage("input_wait", Milestone.INPUT, Milestone.STEP_BEGIN, of_input=True),
    LatencyStage("step", Milestone.STEP_BEGIN, Milestone.STEP_END),
    LatencyStage("emit", Milestone.STEP_END, Milestone.EMITTED),
    LatencyStage("pace", Milestone.EMITTED, Milestone.PACED),
    LatencyStage("encode", Milestone.PACED, Milestone.ENCODED),
    LatencyStage("send", Milestone.ENCODED, Milestone.SENT),
    LatencyStage("network", Milestone.SENT, Milestone.RECEIVED),
    LatencyStage("decode", Milestone.RECEIVED, Milestone.DECODED),
    LatencyStage("present", Milestone.DECODED, Milestone.PRESENTED),
)
"""Consecutive stages; their sum is the total latency."""

TOTALS = (
    LatencyStage("delivery", Milestone.ENCODED, Milestone.PRESENTED),
    LatencyStage("step_to_pixel", Milestone.STEP_BEGIN, Milestone.PRESENTED),
    LatencyStage("input_to_pixel", Milestone.INPUT, Milestone.PRESENTED, of_input=True),
    LatencyStage("key_to_pixel", Milestone.PRESSED, Milestone.PRESENTED, of_input=True),
)
"""Sums of consecutive stages."""

STAGES = PATH + TOTALS


@dataclass(slots=True, eq=False)
class FrameRecord:
    """The timestamps of one frame for one viewer. Set by :class:`~.frame_latency.FrameLatencyTracker`.

    Attributes:
        id: identity of the frame.
        transport: transport of the viewer.
        viewer: name of the viewer; ``None`` for MJPEG.
        times: time of each :class:`Milestone` in nanoseconds of the server's monotonic clock; ``None`` if unknown.
        is_answer: the frame is the first of this viewer that shows an input.
        knows_uplink: that input is the message that carried the key press.
        uncertainty_ns: uncertainty of the viewer's times, half of the best round trip.
    """

    id: FrameId
    transport: str
    viewer: str | None
    times: list[int | None] = field(default_factory=lambda: [None] * len(Milestone))
    is_answer: bool = False
    knows_uplink: bool = False
    uncertainty_ns: int = 0

    @property
    def is_presented(self) -> bool:
        """Whether a viewer reported the frame as presented."""
        return self.times[Milestone.PRESENTED] is not None

    def span(self, stage: LatencyStage) -> tuple[int, int] | None:
        """Begin and end of a stage; ``None`` if unknown, or not recorded for this frame."""
        if stage.of_input and not self.is_answer:
            return None
        if stage.end is Milestone.INPUT and not self.knows_uplink:
            return None
        begin, end = self.times[stage.begin], self.times[stage.end]
        return None if begin is None or end is None else (begin, end)

    def durations(self) -> Iterator[tuple[str, int]]:
        """Name and duration in nanoseconds of each known stage."""
        for stage in STAGES:
            span = self.span(stage)
            if span is not None:
                yield stage.name, span[1] - span[0]


class StageTimes:
    """A rolling window for each stage and transport, created at its first value."""

    def __init__(self, size: int = WINDOW_SIZE) -> None:
        self._size = size
        self._windows: dict[str, dict[str, RollingWindow]] = {}

    def record(self, transport: str, durations: Iterable[tuple[str, int]]) -> None:
        """Record the stages of one frame, as returned by :meth:`FrameRecord.durations`."""
        windows = self._windows.setdefault(transport, {})
        for name, duration_ns in durations:
            window = windows.get(name)
            if window is None:
                window = windows[name] = RollingWindow(self._size)
            window.record(duration_ns)

    def transports(self) -> list[str]:
        """Names of the transports with values, sorted."""
        return sorted(self._windows)

    def snapshot(self, transport: str) -> Mapping[str, WindowSnapshot]:
        """Statistics by name of the stage, in the order of :data:`STAGES`; stages without values are left out."""
        windows = self._windows.get(transport, {})
        return {stage.name: windows[stage.name].snapshot() for stage in STAGES if stage.name in windows}
