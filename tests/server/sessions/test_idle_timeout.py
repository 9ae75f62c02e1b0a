from __future__ import annotations

import asyncio

import pytest

from realtime_engine.core.clock import NS_PER_S
from realtime_engine.server.sessions.idle_timeout import IdleTimer, IdleTracker
from realtime_engine.testing import ManualClock


def seconds(value: float) -> int:
    return round(value * NS_PER_S)


def tracker() -> IdleTracker:
    return IdleTracker(seconds(100), grace_s=2, timeout_s=30, reconnect_s=30)


def test_a_new_session_gets_the_grace_period_and_then_the_timeout() -> None:
    new = tracker()
    assert new.wants_frames(seconds(101.9)) and not new.wants_frames(seconds(102))
    assert not new.is_timed_out(seconds(129.9)) and new.is_timed_out(seconds(130))


def test_a_watched_session_never_times_out() -> None:
    watched = tracker()
    watched.on_watched(True, seconds(101))
    assert watched.wants_frames(seconds(9999)) and not watched.is_timed_out(seconds(9999))
    assert watched.next_change_ns(seconds(9999)) is None and watched.idle_ns(seconds(9999)) == 0


def test_the_time_runs_from_when_the_last_viewer_left() -> None:
    left = tracker()
    left.on_watched(True, seconds(101))
    left.on_watched(False, seconds(500))
    assert left.wants_frames(seconds(501.9)) and not left.wants_frames(seconds(502))
    assert not left.is_timed_out(seconds(529.9)) and left.is_timed_out(seconds(530))


def test_a_snapshot_counts_as_watching_for_the_grace_period() -> None:
    requested = tracker()
    requested.on_snapshot(seconds(110))
    assert requested.wants_frames(seconds(111)) and not requested.wants_frames(seconds(112))
    assert not requested.is_timed_out(seconds(139))


def test_controls_keep_a_session_without_asking_for_frames() -> None:
    controlled = tracker()
    controlled.on_activity(seconds(120))
    assert not controlled.wants_frames(seconds(121))
    assert not controlled.is_timed_out(seconds(149)) and controlled.is_timed_out(seconds(150))


def test_a_session_without_a_connection_is_kept_for_the_reconnect_time() -> None:
    lost = IdleTracker(seconds(100), grace_s=2, timeout_s=30, reconnect_s=5)
    lost.connected = True
    assert not lost.is_timed_out(seconds(129))
    lost.connected = False
    assert not lost.is_timed_out(seconds(104.9)) and lost.is_timed_out(seconds(105))
    assert lost.next_change_ns(seconds(102)) == seconds(105)


def test_a_page_that_was_closed_gets_five_seconds_to_come_back() -> None:
    closed = tracker()
    closed.on_watched(True, seconds(101))  # the end of its connection may be noticed late
    closed.on_left(seconds(110))
    assert closed.next_change_ns(seconds(110)) == seconds(115)
    assert not closed.is_timed_out(seconds(114.9)) and closed.is_timed_out(seconds(115))
    closed.on_activity(seconds(114))
    assert not closed.is_timed_out(seconds(500)) and closed.next_change_ns(seconds(500)) is None


def test_the_next_change_is_known_in_advance() -> None:
    plain = tracker()
    assert plain.next_change_ns(seconds(100)) == seconds(102)
    assert plain.next_change_ns(seconds(102)) == seconds(130)
    plain.on_activity(seconds(125))
    assert plain.next_change_ns(seconds(130)) == seconds(155)


def test_no_grace_period_and_a_timeout_shorter_than_the_grace_period() -> None:
    no_grace = IdleTracker(0, grace_s=0, timeout_s=1, reconnect_s=1)
    assert not no_grace.wants_frames(0) and no_grace.next_change_ns(0) == seconds(1)
    long_grace = IdleTracker(0, grace_s=5, timeout_s=1, reconnect_s=1)
    assert long_grace.next_change_ns(0) == seconds(1)


class Calls:
    """An idle timer under a manual clock, and what it has called."""

    def __init__(self, *, grace_s: float, timeout_s: float) -> None:
        self.clock = ManualClock()
        self.wanted: list[bool] = []
        self.timed_out = asyncio.Event()
        self.unwanted = asyncio.Event()
        self.timer = IdleTimer(
            grace_s=grace_s,
            timeout_s=timeout_s,
            reconnect_s=timeout_s,
            on_wanted=self._on_wanted,
            on_timeout=self.timed_out.set,
            clock=self.clock,
        )

    def _on_wanted(self, wanted: bool) -> None:
        self.wanted.append(wanted)
        if not wanted:
            self.unwanted.set()


async def test_the_timer_reports_the_end_of_the_grace_period_and_the_timeout() -> None:
    calls = Calls(grace_s=0.01, timeout_s=0.02)
    calls.timer.start()
    assert calls.wanted == [True]
    calls.clock.advance(0.01)
    await calls.unwanted.wait()
    assert not calls.timed_out.is_set()
    calls.clock.advance(0.01)
    await calls.timed_out.wait()
    count = len(calls.wanted)
    calls.timer.on_snapshot()
    assert len(calls.wanted) == count, "nothing is called after the timeout"


async def test_the_timer_reports_viewers_at_once() -> None:
    calls = Calls(grace_s=0, timeout_s=60)
    calls.timer.on_watched(True)
    assert calls.wanted == [], "nothing is called before the start"
    calls.timer.start()
    calls.timer.on_watched(False)
    calls.timer.on_snapshot()
    assert calls.wanted == [True, False, False]
    calls.clock.advance(7)
    assert calls.timer.idle_s == 7
    calls.timer.close()


@pytest.mark.parametrize("started", [True, False])
async def test_a_closed_timer_calls_nothing(started: bool) -> None:
    calls = Calls(grace_s=60, timeout_s=60)
    if started:
        calls.timer.start()
    calls.timer.close()
    before = list(calls.wanted)
    calls.timer.on_watched(True)
    assert calls.wanted == before
