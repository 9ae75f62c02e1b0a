"""Joins what the server knows of a frame with what its viewer tells of it, by the frame's identity."""

from __future__ import annotations

import math
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, TypeAlias

from ...core.clock import MONOTONIC, NS_PER_S, Clock
from ...core.messages import Stamps
from ..frame import FrameId
from .timing import FrameRecord, Milestone, RollingWindow, StageTimes

NS_PER_MS = 1_000_000
SESSION_WINDOW = 256

_MAX_PENDING = 256  # frames of one viewer that wait to be told of
_MAX_RECORDS = 2048
_MAX_SHOWN = 64
_MAX_UNCERTAINTY_NS = NS_PER_S // 2
_SLACK_NS = 50 * NS_PER_MS  # a busy event loop notes late that a frame has been sent
_REPEATED_NS = 2 * NS_PER_S  # a frame that waits so long for pacing is an old one, shown again to somebody who came
_INPUT_NS = 5 * NS_PER_S  # an input that waits so long for a step met a paused session

FrameKey: TypeAlias = tuple[int, int, int]  # epoch, seq, index


class PageClock(NamedTuple):
    """A page's estimate: its milliseconds plus ``offset_ms`` are the server's, give or take ``uncertainty_ms``."""

    offset_ms: float
    uncertainty_ms: float

    def to_ns(self, page_ms: float) -> int:
        return round((page_ms + self.offset_ms) * NS_PER_MS)


class PresentedFrame(NamedTuple):
    """What a page tells of a frame, in milliseconds of its own clock; ``None`` where its browser does not say.

    Attributes:
        press_seq, pressed: of the oldest key press that this frame is the first to show.
    """

    key: FrameKey
    received: float | None
    decoded: float | None
    presented: float
    press_seq: int | None = None
    pressed: float | None = None


@dataclass
class JoinCounts:
    """What became of frames that were sent, and of what pages told.

    Attributes:
        joined: frames whose record is complete. unpresented: frames of which no page told in time.
        unknown: told of a frame that was never sent, or long ago, or twice.
        implausible: told of moments that cannot be, or by a clock that is too uncertain.
    """

    joined: int = 0
    unpresented: int = 0
    unknown: int = 0
    implausible: int = 0


@dataclass
class FrameTotals:
    """Of all sessions of a server, ended ones included; ``uncertainty`` is that of their pages' clocks.

    Attributes:
        on_joined: told of each frame whose record is complete.
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
    answered: Any = None  # newest action that was shown to it
    has_seen: bool = False


class FrameLatencyTracker:
    """The frames of one session, from encoding to presentation. Belongs to one event loop; memory is bounded.

    Viewers by WebRTC and the like have names. Those by MJPEG share one encode and have none: each of them may tell of a
    frame, and what answers an input for the first of them does so for all.

    Args:
        totals: counts along, for all sessions together.
        clock: what frames are stamped by.

    Attributes:
        times: rolling numbers of this session.
    """

    def __init__(self, totals: FrameTotals, clock: Clock = MONOTONIC) -> None:
        self.times = StageTimes(SESSION_WINDOW)
        self._totals = totals
        self._clock = clock
        self._viewers: dict[str | None, _Viewer] = {}
        self._paced: OrderedDict[FrameKey, int] = OrderedDict()
        self._records: deque[FrameRecord] = deque(maxlen=_MAX_RECORDS)

    # -- what the server knows

    def sent(
        self, viewer: str | None, transport: str, frame: FrameId, *, paced_ns: int, encoded_ns: int, sent_ns: int | None
    ) -> None:
        """A frame has gone to a viewer; ``sent_ns`` is ``None`` where nobody knows when."""
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
        """A frame was shown to those whose encode is shared; see :meth:`encoded`."""
        self._paced[_key(frame)] = self._clock.now_ns()
        if len(self._paced) > _MAX_SHOWN:
            self._paced.popitem(last=False)

    def encoded(self, frame: FrameId, transport: str) -> None:
        """A frame is encoded for viewers without a name. Those that were shown before anybody watched are left out."""
        paced_ns = self._paced.get(_key(frame))
        if paced_ns is not None:
            self.sent(None, transport, frame, paced_ns=paced_ns, encoded_ns=self._clock.now_ns(), sent_ns=None)

    def left(self, viewer: str | None) -> None:
        """Nothing more will be told by this viewer."""
        gone = self._viewers.pop(viewer, None)
        if gone is not None:
            self._totals.counts.unpresented += sum(not record.is_presented for record in gone.pending.values())

    # -- what viewers tell

    def presented(self, viewer: str | None, frames: Iterable[PresentedFrame], clock: PageClock) -> None:
        """A viewer has shown frames. What fits to none of those that were sent to it is counted and forgotten."""
        known = self._viewers.get(viewer)
        self._totals.uncertainty.record(round(clock.uncertainty_ms * NS_PER_MS))
        for told in frames:
            record = None if known is None else _awaited(known, told.key)
            if known is None or record is None:
                self._totals.counts.unknown += 1
            elif not self._complete(record, told, clock):
                self._totals.counts.implausible += 1
            else:
                self._count(known, record, told)

    def transport_of(self, viewer: str | None) -> str | None:
        """How a viewer is sent its frames; ``None`` when there is no such viewer."""
        known = self._viewers.get(viewer)
        return None if known is None else known.transport

    def records(self, since_ns: int) -> list[FrameRecord]:
        """Frames shown to anybody since then, oldest first, complete or not; at most 2048."""
        return [record for record in self._records if (record.times[Milestone.PACED] or 0) >= since_ns]

    # -- within

    def _complete(self, record: FrameRecord, told: PresentedFrame, clock: PageClock) -> bool:
        """Fill the viewer's moments in, each no earlier than the last; false and nothing done if they cannot be."""
        if clock.uncertainty_ms * NS_PER_MS > _MAX_UNCERTAINTY_NS:
            return False
        tolerance_ns = math.ceil(clock.uncertainty_ms * NS_PER_MS) + _SLACK_NS
        latest_ns = record.times[Milestone.SENT] or record.times[Milestone.ENCODED] or 0
        found: list[int | None] = []
        for page_ms in (told.received, told.decoded, told.presented):
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
        self._answer(record, told, clock)
        return True

    def _answer(self, record: FrameRecord, told: PresentedFrame, clock: PageClock) -> None:
        """Find out whether this is the frame in which its viewer first saw an input."""
        known, action = self._viewers[record.viewer], record.id.action_id
        received_ns, begin_ns = record.times[Milestone.INPUT], record.times[Milestone.STEP_BEGIN]
        if received_ns is not None and begin_ns is not None and begin_ns - received_ns <= _INPUT_NS:
            is_news = known.has_seen and action is not None and action != known.answered
            record.is_answer = record.is_answer or is_news
        known.answered, known.has_seen = action, True
        if not record.is_answer or received_ns is None or told.pressed is None:
            return
        pressed_ns, presented_ns = clock.to_ns(told.pressed), record.times[Milestone.PRESENTED]
        if presented_ns is not None and 0 <= presented_ns - pressed_ns <= _INPUT_NS:
            record.knows_uplink = told.press_seq == action
            record.times[Milestone.PRESSED] = min(pressed_ns, received_ns) if record.knows_uplink else pressed_ns

    def _count(self, known: _Viewer, record: FrameRecord, told: PresentedFrame) -> None:
        self._totals.counts.joined += 1
        if known.pending[told.key] is not record:
            self._records.append(record)
        if record.viewer is not None:
            del known.pending[told.key]
        durations = list(record.durations())
        self.times.record(record.transport, durations)
        self._totals.times.record(record.transport, durations)
        if self._totals.on_joined is not None:
            self._totals.on_joined(record)


def _awaited(known: _Viewer, key: FrameKey) -> FrameRecord | None:
    """The record that waits for this viewer's word; for one without a name a new one, if another has had its say."""
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
