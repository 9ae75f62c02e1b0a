"""Where the time of a frame goes: the moments that it is known by, stages between them, rolling numbers of these."""

from __future__ import annotations

import enum
from array import array
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from ..frame import FrameId

WINDOW = 512


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


@dataclass(frozen=True)
class WindowSnapshot:
    """A reading of a :class:`RollingWindow`: ``count`` and ``sum_ns`` of all values ever, the rest of the newest."""

    count: int
    sum_ns: int
    min_ns: int
    p50_ns: int
    p90_ns: int
    p95_ns: int
    p99_ns: int
    max_ns: int
    mean_ns: float


class RollingWindow:
    """The newest durations, exactly; fixed memory, O(1) a value. Sorting waits until somebody reads.

    Args:
        size: how many values are kept.
    """

    __slots__ = ("_count", "_sum_ns", "_values")

    def __init__(self, size: int = WINDOW) -> None:
        if size < 1:
            raise ValueError(f"size must be 1 or more, got {size!r}")
        self._values = array("q", bytes(8 * size))
        self._count = 0
        self._sum_ns = 0

    def record(self, duration_ns: int) -> None:
        """Negative durations count as 0."""
        value = max(duration_ns, 0)
        self._values[self._count % len(self._values)] = value
        self._count += 1
        self._sum_ns += value

    def snapshot(self) -> WindowSnapshot:
        """Quantiles are nearest-rank; all zero without values."""
        kept = sorted(self._values[: self._count])
        if not kept:
            return WindowSnapshot(0, 0, 0, 0, 0, 0, 0, 0, 0.0)
        p50, p90, p95, p99 = (kept[-(-share * len(kept) // 100) - 1] for share in (50, 90, 95, 99))
        mean = sum(kept) / len(kept)
        return WindowSnapshot(self._count, self._sum_ns, kept[0], p50, p90, p95, p99, kept[-1], mean)


class StageTimes:
    """A window for each stage and transport, made when its first value comes."""

    def __init__(self, size: int = WINDOW) -> None:
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
