"""Where the time of a frame goes: the moments that it is known by, stages between them, rolling numbers of these."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from ...core.statistics import WINDOW_SIZE, RollingWindow, WindowSnapshot
from ..frame import FrameId


class Milestone(enum.IntEnum):
    """Moments in the life of one frame for one viewer, in the order in which they come."""

    PRESSED = 0  # the key went down in the browser
    INPUT = 1  # the message of it was received
    STEP_BEGIN = 2
    STEP_END = 3
    EMITTED = 4  # the chunk went into the outbox
    PACED = 5  # the frame was shown to whoever watches
    ENCODED = 6
    SENT = 7  # its last packet was handed to the network
    RECEIVED = 8  # its last packet was there
    DECODED = 9
    PRESENTED = 10  # the browser handed it to its compositor


class Stage(NamedTuple):
    """The time between two milestones.

    Attributes:
        of_input: counted only for the first frame that shows an input.
    """

    name: str
    begin: Milestone
    end: Milestone
    of_input: bool = False


PATH = (
    Stage("uplink", Milestone.PRESSED, Milestone.INPUT, of_input=True),
    Stage("input_wait", Milestone.INPUT, Milestone.STEP_BEGIN, of_input=True),
    Stage("step", Milestone.STEP_BEGIN, Milestone.STEP_END),
    Stage("emit", Milestone.STEP_END, Milestone.EMITTED),
    Stage("pace", Milestone.EMITTED, Milestone.PACED),
    Stage("encode", Milestone.PACED, Milestone.ENCODED),
    Stage("send", Milestone.ENCODED, Milestone.SENT),
    Stage("network", Milestone.SENT, Milestone.RECEIVED),
    Stage("decode", Milestone.RECEIVED, Milestone.DECODED),
    Stage("present", Milestone.DECODED, Milestone.PRESENTED),
)
"""One after the other; what they sum up to is the whole way."""

TOTALS = (
    Stage("delivery", Milestone.ENCODED, Milestone.PRESENTED),
    Stage("step_to_pixel", Milestone.STEP_BEGIN, Milestone.PRESENTED),
    Stage("input_to_pixel", Milestone.INPUT, Milestone.PRESENTED, of_input=True),
    Stage("key_to_pixel", Milestone.PRESSED, Milestone.PRESENTED, of_input=True),
)
"""Several of them together."""

STAGES = PATH + TOTALS


@dataclass(slots=True, eq=False)
class FrameRecord:
    """What is known of one frame's way to one viewer. Filled in by :class:`FrameLatencyTracker`.

    Attributes:
        transport, viewer: who it was for; viewers by MJPEG have no name.
        times: a moment for each :class:`Milestone`, in nanoseconds of this machine's monotonic clock; ``None`` where
            nobody told.
        is_answer: it was the first frame of this viewer that its input had shaped.
        knows_uplink: that input was the very message which carried the key press.
        uncertainty_ns: by how much the viewer's moments may be off, half of the best round trip.
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
        return self.times[Milestone.PRESENTED] is not None

    def span(self, stage: Stage) -> tuple[int, int] | None:
        """Begin and end of a stage; ``None`` where it is not known, or does not count for this frame."""
        if stage.of_input and not self.is_answer:
            return None
        if stage.end is Milestone.INPUT and not self.knows_uplink:
            return None
        begin, end = self.times[stage.begin], self.times[stage.end]
        return None if begin is None or end is None else (begin, end)

    def durations(self) -> Iterator[tuple[str, int]]:
        """Name and nanoseconds of each stage that is known."""
        for stage in STAGES:
            span = self.span(stage)
            if span is not None:
                yield stage.name, span[1] - span[0]


class StageTimes:
    """A window for each stage and transport, made when its first value comes."""

    def __init__(self, size: int = WINDOW_SIZE) -> None:
        self._size = size
        self._windows: dict[str, dict[str, RollingWindow]] = {}

    def record(self, transport: str, durations: Iterable[tuple[str, int]]) -> None:
        """Count what :meth:`FrameRecord.durations` gives for a frame."""
        windows = self._windows.setdefault(transport, {})
        for name, duration_ns in durations:
            window = windows.get(name)
            if window is None:
                window = windows[name] = RollingWindow(self._size)
            window.record(duration_ns)

    def transports(self) -> list[str]:
        return sorted(self._windows)

    def snapshot(self, transport: str) -> Mapping[str, WindowSnapshot]:
        """By name of the stage, in the order of :data:`STAGES`; only those that have values."""
        windows = self._windows.get(transport, {})
        return {stage.name: windows[stage.name].snapshot() for stage in STAGES if stage.name in windows}
