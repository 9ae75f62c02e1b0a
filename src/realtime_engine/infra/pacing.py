"""Frame pacing: chunks of frames in, frames at a steady cadence out."""

from __future__ import annotations

import asyncio
import math
import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ..core.clock import MONOTONIC, NS_PER_S, Clock
from ..core.waiters import call_soon
from .frame import Frame

NS_PER_MS = 1_000_000

_SLEW = 0.1  # share of a period by which the distance of two frames may differ from it
_UNDERRUN_PERIODS = 1.5  # a frame ready later than this after the previous one has missed its slot
_HISTORY_CHUNKS = 48
_ON_TIME = 0.95  # share of chunks that arrive within the delay


@dataclass(frozen=True)
class PacerStatistics:
    """Counts since the pacer was made.

    Attributes:
        pushed, shown: frames in and out.
        dropped: frames dropped to stay within the media-age budget.
        discarded: frames of an epoch that had ended.
        underruns: how often no frame was ready when the next one was due.
        queued: frames in the queue now.
        jitter_ms: delay in milliseconds that a steady cadence needs at present.
        age_ms: media age of the last frame shown, in milliseconds.
    """

    pushed: int
    shown: int
    dropped: int
    discarded: int
    underruns: int
    queued: int
    jitter_ms: float
    age_ms: float


class _Queued(NamedTuple):
    frame: Frame
    number: int  # of the frame among all frames
    ready_ns: int  # arrival, plus the frame's place in its chunk


class Pacer:
    """Determines when each frame is shown. Pure policy: no thread, no event loop, no lock.

    Frame *n* of the stream is due at ``n / fps`` plus an offset that follows arrivals: the smallest with which 95 % of
    the latest 48 chunks arrive in time (with least-squares drift removed, so that a producer that is slightly too fast
    or slow adds no delay), less a tenth of a period, which is invisible. With regular arrivals a frame is therefore
    shown at once. Playback approaches its offset by a tenth of a period per frame, so that two frames are at least 0.9
    periods apart.

    The *media age* of a frame is the time that it waits beyond its place in its chunk: the delay that pacing adds. It
    stays below ``budget_ms``, or one period where that is more. A chunk that would exceed it drops all frames before
    it, so that playback returns to the live edge.

    Args:
        fps: output frames per second, ``rate_hz * frames_per_chunk`` of the engine.
        budget_ms: maximum media age in milliseconds.
        clock: stamps the arrival of chunks.

    Raises:
        ValueError: ``fps`` or ``budget_ms`` is not a finite number in range.
    """

    def __init__(self, fps: float, budget_ms: float = 100.0, clock: Clock = MONOTONIC) -> None:
        if not math.isfinite(fps) or fps <= 0:
            raise ValueError(f"fps must be a finite number of frames per second above 0, got {fps!r}")
        if not math.isfinite(budget_ms) or budget_ms < 0:
            raise ValueError(f"budget_ms must be a finite number of milliseconds, 0 or more, got {budget_ms!r}")
        self.fps = fps
        self.budget_ms = budget_ms
        self.clock = clock
        self._period_ns = NS_PER_S / fps
        self._budget_ns = max(budget_ms * NS_PER_MS, self._period_ns)
        self._arrivals = _Arrivals(self._period_ns, self._budget_ns)
        self._queue: deque[_Queued] = deque()
        self._epoch = 0
        self._chunk_frames = 1
        self._last_ns: int | None = None
        self._restarted = True
        self._pushed = self._shown = self._dropped = self._discarded = self._underruns = 0
        self._age_ns = 0

    def __repr__(self) -> str:
        return f"Pacer(fps={self.fps:g}, budget_ms={self.budget_ms:g})"

    @property
    def epoch(self) -> int:
        """The newest epoch; frames of older ones are discarded."""
        return self._epoch

    def push(self, frames: Sequence[Frame]) -> None:
        """Add the frames of one chunk, all of one epoch, in order. A new epoch discards the queue."""
        if not frames:
            return
        epoch = frames[0].id.epoch
        if epoch < self._epoch:
            self._discarded += len(frames)
            return
        self.begin_epoch(epoch)
        now_ns = self.clock.now_ns()
        self._arrivals.record(now_ns, self._pushed)
        for place, frame in enumerate(frames):
            self._queue.append(_Queued(frame, self._pushed + place, now_ns + round(place * self._period_ns)))
        self._pushed += len(frames)
        self._chunk_frames = len(frames)
        if self._end_of_queue_ns(now_ns) - self._period_ns - self._queue[-1].ready_ns > self._budget_ns:
            self._return_to_live_edge(now_ns)

    def begin_epoch(self, epoch: int) -> None:
        """Discard frames of older epochs, now and later; no effect unless ``epoch`` is newer."""
        if epoch > self._epoch:
            self._epoch = epoch
            self.clear()

    def clear(self) -> None:
        """Discard the queue and restart, as after a pause: the gap until the next frame is not an underrun."""
        self._discarded += len(self._queue)
        self._queue.clear()
        self._arrivals.clear()
        self._restarted = True

    @property
    def next_due_ns(self) -> int | None:
        """The time at which the next frame is due; ``None`` with an empty queue."""
        if not self._queue:
            return None
        head = self._queue[0]
        if self._last_ns is None:
            return head.ready_ns
        wanted_ns = head.number * self._period_ns + self._arrivals.offset_ns
        earliest_ns = self._last_ns + (1 - _SLEW) * self._period_ns
        latest_ns = self._last_ns + (1 + _SLEW) * self._period_ns
        return max(head.ready_ns, math.ceil(min(max(wanted_ns, earliest_ns), latest_ns)))

    def pop_due(self, now_ns: int) -> Frame | None:
        """The frame to show at ``now_ns``, or ``None``; at most one per period, however late the call."""
        due_ns = self.next_due_ns
        if due_ns is None or now_ns < due_ns:
            return None
        while len(self._queue) > 1 and now_ns - self._queue[0].ready_ns > self._budget_ns:
            self._queue.popleft()
            self._dropped += 1
        shown = self._queue.popleft()
        if self._missed_its_slot(shown):
            self._underruns += 1
        self._restarted = False
        self._last_ns = now_ns
        self._age_ns = now_ns - shown.ready_ns
        self._shown += 1
        return shown.frame

    def wants_more(self, now_ns: int) -> bool:
        """Playback credit: false while the engine runs ahead, so that it can be paused before frames are dropped.

        That is the case when the next chunk, arriving after the shortest recent interval, would wait longer than the
        mean of the jitter delay and the budget.
        """
        if not self._queue:
            return True
        next_chunk_ns = max(now_ns, self._arrivals.soonest_next_ns(self._chunk_frames * self._period_ns))
        return self._end_of_queue_ns(now_ns) - next_chunk_ns <= (self._arrivals.jitter_ns + self._budget_ns) / 2

    def statistics(self) -> PacerStatistics:
        """The counts so far."""
        return PacerStatistics(
            pushed=self._pushed,
            shown=self._shown,
            dropped=self._dropped,
            discarded=self._discarded,
            underruns=self._underruns,
            queued=len(self._queue),
            jitter_ms=self._arrivals.jitter_ns / NS_PER_MS,
            age_ms=self._age_ns / NS_PER_MS,
        )

    def _end_of_queue_ns(self, now_ns: int) -> float:
        due_ns = self.next_due_ns
        assert due_ns is not None
        return max(now_ns, due_ns) + len(self._queue) * self._period_ns

    def _return_to_live_edge(self, now_ns: int) -> None:
        while len(self._queue) > self._chunk_frames:
            self._queue.popleft()
            self._dropped += 1
        self._arrivals.restart(now_ns, self._queue[0].number)

    def _missed_its_slot(self, shown: _Queued) -> bool:
        if self._restarted or self._last_ns is None:
            return False
        return shown.ready_ns - self._last_ns > _UNDERRUN_PERIODS * self._period_ns


class _Arrivals:
    """Estimates the offset between a frame's number and its due time from the latest chunks.

    The *transit* of a chunk is its arrival less ``index * period``: constant with regular chunks, falling when they
    arrive too fast.

    Attributes:
        offset_ns: the offset.
        jitter_ns: the delay that it means for the earliest chunks.
    """

    def __init__(self, period_ns: float, budget_ns: float) -> None:
        self._period_ns = period_ns
        self._budget_ns = budget_ns
        self._transits: deque[float] = deque(maxlen=_HISTORY_CHUNKS)
        self._intervals: deque[int] = deque(maxlen=_HISTORY_CHUNKS)
        self._last_ns: int | None = None
        self.offset_ns = 0.0
        self.jitter_ns = 0.0

    def clear(self) -> None:
        """Forget the schedule of arrivals, but not the intervals between chunks."""
        self._transits.clear()
        self.jitter_ns = 0.0

    def record(self, arrival_ns: int, index: int) -> None:
        """A chunk whose first frame has number ``index`` has arrived."""
        if self._last_ns is not None:
            self._intervals.append(arrival_ns - self._last_ns)
        self._last_ns = arrival_ns
        self._learn(arrival_ns - index * self._period_ns)

    def restart(self, arrival_ns: int, index: int) -> None:
        """Base the schedule on this chunk alone, which was already recorded."""
        self.clear()
        self._learn(arrival_ns - index * self._period_ns)

    def soonest_next_ns(self, usual_ns: float) -> float:
        """The earliest time at which the next chunk may arrive; ``usual_ns`` is the interval before any is known."""
        assert self._last_ns is not None
        return self._last_ns + min(self._intervals, default=usual_ns)

    def _learn(self, transit_ns: float) -> None:
        if self._transits and transit_ns > self.offset_ns + self._budget_ns:
            self._transits.clear()  # a stall: earlier chunks had another schedule
        self._transits.append(transit_ns)
        self._fit()

    def _fit(self) -> None:
        newest_ns = self._transits[-1]
        relative = np.array(self._transits) - newest_ns
        count = len(relative)
        place = np.arange(count) - (count - 1) / 2
        slope = float(place @ relative) / max(float(place @ place), 1.0)
        residual = np.sort(relative - relative.mean() - slope * place)
        late = float(residual[math.ceil(_ON_TIME * count) - 1])
        self.jitter_ns = min(late - float(residual[0]), self._budget_ns)
        line_end = float(relative.mean()) + slope * (count - 1) / 2
        needed = min(line_end + float(residual[0]) + self.jitter_ns, float(relative.max()))
        self.offset_ns = newest_ns + needed - _SLEW * self._period_ns


class PacedPlayer:
    """Runs a :class:`Pacer` on an event loop: frames pushed from any thread are published when they are due.

    Args:
        pacer: the policy; it must not be used otherwise any more.
        publish: called on the loop of :meth:`run` with each frame. It must not block.
    """

    def __init__(self, pacer: Pacer, publish: Callable[[Frame], object]) -> None:
        self._pacer = pacer
        self._publish = publish
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._wake = asyncio.Event()
        self._closed = False

    def push(self, frames: Sequence[Frame]) -> None:
        """As :meth:`Pacer.push`. From any thread."""
        with self._lock:
            self._pacer.push(frames)
        self._notify()

    def begin_epoch(self, epoch: int) -> None:
        """As :meth:`Pacer.begin_epoch`. From any thread; a frame that is being published at this moment still is."""
        with self._lock:
            self._pacer.begin_epoch(epoch)

    def clear(self) -> None:
        """As :meth:`Pacer.clear`. From any thread."""
        with self._lock:
            self._pacer.clear()

    def wants_more(self) -> bool:
        """As :meth:`Pacer.wants_more`, now. From any thread."""
        with self._lock:
            return self._pacer.wants_more(self._pacer.clock.now_ns())

    def statistics(self) -> PacerStatistics:
        """As :meth:`Pacer.statistics`. From any thread."""
        with self._lock:
            return self._pacer.statistics()

    def close(self) -> None:
        """End :meth:`run`; queued frames are not shown. From any thread. Idempotent."""
        self._closed = True
        self._notify()

    async def run(self) -> None:
        """Publish frames when they are due, until :meth:`close`. Exceptions of ``publish`` propagate."""
        self._loop = asyncio.get_running_loop()
        while not self._closed:
            self._wake.clear()
            with self._lock:
                now_ns = self._pacer.clock.now_ns()
                frame = self._pacer.pop_due(now_ns)
                due_ns = self._pacer.next_due_ns
            if frame is not None:
                self._publish(frame)
            await self._sleep(None if due_ns is None else (due_ns - now_ns) / NS_PER_S)

    async def _sleep(self, seconds: float | None) -> None:
        assert self._loop is not None
        if seconds is None:
            await self._wake.wait()
            return
        timer = self._loop.call_later(max(seconds, 0.0), self._wake.set)
        try:
            await self._wake.wait()
        finally:
            timer.cancel()

    def _notify(self) -> None:
        if self._loop is not None:
            call_soon(self._loop, self._wake.set)
