"""Latency join: matches the server's timestamps of a frame with those reported by its viewers."""

from __future__ import annotations

import math
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, TypeAlias

from ...core.clock import MONOTONIC, NS_PER_S, Clock
from ...core.messages import Stamps
from ...core.statistics import RollingWindow
from ..frame import FrameId
from .timing import FrameRecord, Milestone, StageTimes

NS_PER_MS = 1_000_000
SESSION_WINDOW = 256

_MAX_PENDING = 256  # frames of one viewer without a report
_MAX_RECORDS = 2048
_MAX_SHOWN = 64
_MAX_UNCERTAINTY_NS = NS_PER_S // 2
_SLACK_NS = 50 * NS_PER_MS  # a busy event loop records the time of sending late
_REPEATED_NS = 2 * NS_PER_S  # a frame with a longer pacing delay is an old one, repeated for a new viewer
_INPUT_NS = 5 * NS_PER_S  # an input with a longer delay was received while the session was paused

FrameKey: TypeAlias = tuple[int, int, int]  # epoch, seq, index


class PageClock(NamedTuple):
    """A page's clock estimate: server time = page time + ``offset_ms`` ± ``uncertainty_ms``."""

    offset_ms: float
    uncertainty_ms: float

    def to_ns(self, page_ms: float) -> int:
        """Convert page time in milliseconds to server time in nanoseconds."""
        return round((page_ms + self.offset_ms) * NS_PER_MS)


class PresentedFrame(NamedTuple):
    """A page's report on a frame. Times are milliseconds of the page's clock, ``None`` if the browser lacks them.

    Attributes:
        key: identity of the frame.
        received, decoded, presented: times of the frame.
        press_seq: sequence number of the oldest key press that this frame is the first to show.
        pressed: time of that key press.
    """

    key: FrameKey
    received: float | None
    decoded: float | None
    presented: float
    press_seq: int | None = None
    pressed: float | None = None


@dataclass
class JoinCounts:
    """Outcomes of sent frames and of reports.

    Attributes:
        joined: frames with a complete record.
        unpresented: frames without a report in time.
        unknown: reports on frames that were not sent, or too long ago, or already reported.
        implausible: reports with impossible times, or from a clock with too much uncertainty.
    """

    joined: int = 0
    unpresented: int = 0
    unknown: int = 0
    implausible: int = 0


@dataclass
class FrameTotals:
    """Totals over all sessions of a server, including ended ones.

    Attributes:
        times: latency of each stage.
        counts: outcomes of frames and reports.
        uncertainty: uncertainty of the pages' clocks, in nanoseconds.
        on_joined: called with each complete record.
    """

    times: StageTimes = field(default_factory=StageTimes)
    counts: JoinCounts = field(default_factory=JoinCounts)
    uncertainty: RollingWindow = field(default_factory=RollingWindow)
    on_joined: Callable[[FrameRecord], None] | None = None


@dataclass
class _Viewer:
    transport: str
    newest: FrameKey = (-1, -1, -1)
    pending: OrderedDict[FrameKey, FrameRecord] = field(default_factory=OrderedDict)
    shown_action: Any = None  # newest action shown to the viewer
    has_seen: bool = False


class FrameLatencyTracker:
    """Tracks the frames of one session from encoding to presentation. Belongs to one event loop; memory is bounded.

    WebRTC and WebCodecs viewers have names. MJPEG viewers share one encode and have none: each of them may report a
    frame, and a frame that answers an input for the first of them does so for all.

    Args:
        totals: totals over all sessions, updated as well.
        clock: clock of the server's timestamps.

    Attributes:
        times: latency of each stage in this session.
    """

    def __init__(self, totals: FrameTotals, clock: Clock = MONOTONIC) -> None:
        self.times = StageTimes(SESSION_WINDOW)
        self._totals = totals
        self._clock = clock
        self._viewers: dict[str | None, _Viewer] = {}
        self._paced: OrderedDict[FrameKey, int] = OrderedDict()
        self._records: deque[FrameRecord] = deque(maxlen=_MAX_RECORDS)

    # -- timestamps of the server

    def sent(
        self, viewer: str | None, transport: str, frame: FrameId, *, paced_ns: int, encoded_ns: int, sent_ns: int | None
    ) -> None:
        """Record that a frame was sent to a viewer; ``sent_ns`` is ``None`` if the time is unknown."""
        stamps, key = frame.stamps, _key(frame)
        known = self._viewers.get(viewer)
        if known is None:
            known = self._viewers[viewer] = _Viewer(transport)
        if key <= known.newest or not stamps.emitted or paced_ns - stamps.emitted > _REPEATED_NS:
            return
        known.newest = key
        record = FrameRecord(frame, transport, viewer)
        _fill(record, stamps, paced_ns, encoded_ns, sent_ns)
        known.pending[key] = record
        self._records.append(record)
        if len(known.pending) > _MAX_PENDING:
            _, lost = known.pending.popitem(last=False)
            self._totals.counts.unpresented += not lost.is_presented

    def shown(self, frame: FrameId) -> None:
        """Record that a frame was published to viewers that share an encode; see :meth:`encoded`."""
        self._paced[_key(frame)] = self._clock.now_ns()
        if len(self._paced) > _MAX_SHOWN:
            self._paced.popitem(last=False)

    def encoded(self, frame: FrameId, transport: str) -> None:
        """Record that a frame was encoded for unnamed viewers. Frames published without a viewer are ignored."""
        paced_ns = self._paced.get(_key(frame))
        if paced_ns is not None:
            self.sent(None, transport, frame, paced_ns=paced_ns, encoded_ns=self._clock.now_ns(), sent_ns=None)

    def left(self, viewer: str | None) -> None:
        """Remove a viewer that disconnected."""
        removed = self._viewers.pop(viewer, None)
        if removed is not None:
            self._totals.counts.unpresented += sum(not record.is_presented for record in removed.pending.values())

    # -- reports of viewers

    def presented(self, viewer: str | None, frames: Iterable[PresentedFrame], clock: PageClock) -> None:
        """Process a viewer's report. A report that matches no sent frame is counted and discarded."""
        known = self._viewers.get(viewer)
        self._totals.uncertainty.record(round(clock.uncertainty_ms * NS_PER_MS))
        for report in frames:
            record = None if known is None else _pending_record(known, report.key)
            if known is None or record is None:
                self._totals.counts.unknown += 1
            elif not self._complete(record, report, clock):
                self._totals.counts.implausible += 1
            else:
                self._count(known, record, report)

    def transport_of(self, viewer: str | None) -> str | None:
        """The transport of a viewer; ``None`` if there is no such viewer."""
        known = self._viewers.get(viewer)
        return None if known is None else known.transport

    def records(self, since_ns: int) -> list[FrameRecord]:
        """Records of frames published since ``since_ns``, oldest first, complete or not; at most 2048."""
        return [record for record in self._records if (record.times[Milestone.PACED] or 0) >= since_ns]

    # -- internals

    def _complete(self, record: FrameRecord, report: PresentedFrame, clock: PageClock) -> bool:
        """Add the viewer's times, each no earlier than the last. Returns false, without a change, if implausible."""
        if clock.uncertainty_ms * NS_PER_MS > _MAX_UNCERTAINTY_NS:
            return False
        tolerance_ns = math.ceil(clock.uncertainty_ms * NS_PER_MS) + _SLACK_NS
        latest_ns = record.times[Milestone.SENT] or record.times[Milestone.ENCODED] or 0
        found: list[int | None] = []
        for page_ms in (report.received, report.decoded, report.presented):
            if page_ms is None:
                found.append(None)
                continue
            moment_ns = clock.to_ns(page_ms)
            if not latest_ns - tolerance_ns <= moment_ns <= self._clock.now_ns() + tolerance_ns:
                return False
            latest_ns = max(latest_ns, moment_ns)
            found.append(latest_ns)
        record.times[Milestone.RECEIVED :] = found
        record.uncertainty_ns = round(clock.uncertainty_ms * NS_PER_MS)
        self._match_input(record, report, clock)
        return True

    def _match_input(self, record: FrameRecord, report: PresentedFrame, clock: PageClock) -> None:
        """Determine whether this frame is the first to show an input to its viewer."""
        known, action = self._viewers[record.viewer], record.id.action_id
        received_ns, begin_ns = record.times[Milestone.INPUT], record.times[Milestone.STEP_BEGIN]
        if received_ns is not None and begin_ns is not None and begin_ns - received_ns <= _INPUT_NS:
            is_new = known.has_seen and action is not None and action != known.shown_action
            record.is_answer = record.is_answer or is_new
        known.shown_action, known.has_seen = action, True
        if not record.is_answer or received_ns is None or report.pressed is None:
            return
        pressed_ns, presented_ns = clock.to_ns(report.pressed), record.times[Milestone.PRESENTED]
        if presented_ns is not None and 0 <= presented_ns - pressed_ns <= _INPUT_NS:
            record.knows_uplink = report.press_seq == action
            record.times[Milestone.PRESSED] = min(pressed_ns, received_ns) if record.knows_uplink else pressed_ns

    def _count(self, known: _Viewer, record: FrameRecord, report: PresentedFrame) -> None:
        self._totals.counts.joined += 1
        if known.pending[report.key] is not record:
            self._records.append(record)
        if record.viewer is not None:
            del known.pending[report.key]
        durations = list(record.durations())
        self.times.record(record.transport, durations)
        self._totals.times.record(record.transport, durations)
        if self._totals.on_joined is not None:
            self._totals.on_joined(record)


def _pending_record(known: _Viewer, key: FrameKey) -> FrameRecord | None:
    """The record without a report. Of unnamed viewers, each further report of a frame gets a new record."""
    record = known.pending.get(key)
    if record is None or not record.is_presented:
        return record
    times = [None, *record.times[Milestone.INPUT : Milestone.RECEIVED], None, None, None]
    return replace(record, times=times, knows_uplink=False)


def _key(frame: FrameId) -> FrameKey:
    return frame.epoch, frame.seq, frame.frame_index


def _fill(record: FrameRecord, stamps: Stamps, paced_ns: int, encoded_ns: int, sent_ns: int | None) -> None:
    times = record.times
    times[Milestone.INPUT] = stamps.action_received
    latest_ns = stamps.step_begin
    moments = (
        (Milestone.STEP_BEGIN, stamps.step_begin),
        (Milestone.STEP_END, stamps.step_end),
        (Milestone.EMITTED, stamps.emitted),
        (Milestone.PACED, paced_ns),
        (Milestone.ENCODED, encoded_ns),
        (Milestone.SENT, sent_ns),
    )
    for milestone, moment_ns in moments:
        if moment_ns is not None:
            latest_ns = times[milestone] = max(latest_ns, moment_ns)
