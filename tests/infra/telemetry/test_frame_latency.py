"""Frames of a session whose page's clock is far from the server's."""

from __future__ import annotations

from typing import Any

import pytest

from realtime_engine.core.messages import Stamps
from realtime_engine.infra.frame import FrameId
from realtime_engine.infra.telemetry import frame_latency as joining
from realtime_engine.infra.telemetry.frame_latency import (
    NS_PER_MS,
    FrameLatencyTracker,
    FrameTotals,
    PageClock,
    PresentedFrame,
)
from realtime_engine.infra.telemetry.timing import STAGES, FrameRecord, Milestone
from realtime_engine.testing import ManualClock

START_MS = 1000.0
SHIFT_MS = 123_456.0  # the page's clock is behind by that
TRUE = PageClock(SHIFT_MS, 0.5)


class Session:
    """A joiner whose server works to the millisecond; moments are milliseconds of the server's clock after a frame's
    input."""

    def __init__(self) -> None:
        self.clock = ManualClock(round((START_MS + SHIFT_MS) * NS_PER_MS))
        self.totals = FrameTotals()
        self.joiner = FrameLatencyTracker(self.totals, self.clock)
        self.begun_ms = 0.0

    def ns(self, after_ms: float) -> int:
        return round((START_MS + SHIFT_MS + self.begun_ms + after_ms) * NS_PER_MS)

    def page_ms(self, after_ms: float) -> float:
        return START_MS + self.begun_ms + after_ms

    def frame(self, seq: int, action: int | None = None, *, index: int = 0, epoch: int = 1) -> FrameId:
        """Received at 0, stepped from 2 to 5, out at 6; 40 ms after the frame before."""
        if index == 0:
            self.begun_ms = 40.0 * seq
        stamps = Stamps(self.ns(0), self.ns(2), self.ns(5), self.ns(6))
        return FrameId("s", epoch, seq, index, action, stamps)

    def send(self, seq: int, action: int | None = None, *, viewer: str = "v", **given: Any) -> FrameId:
        """Paced at 8, encoded at 11, sent at 12."""
        frame = self.frame(seq, action, **given)
        self.joiner.sent(viewer, "webrtc", frame, paced_ns=self.ns(8), encoded_ns=self.ns(11), sent_ns=self.ns(12))
        self.clock.advance(0.1)
        return frame

    def tell(self, seq: int, *, viewer: str | None = "v", clock: PageClock = TRUE, **given: Any) -> None:
        """Received at 15, decoded at 17, presented at 22, if nothing else is given."""
        moments = {"received": 15, "decoded": 17, "presented": 22, **given}
        told = {name: None if ms is None else self.page_ms(ms) for name, ms in moments.items() if name != "press_seq"}
        press = {"press_seq": given.get("press_seq")}
        self.joiner.presented(viewer, [PresentedFrame((1, seq, 0), **told, **press)], clock)

    @property
    def last(self) -> FrameRecord:
        return self.joiner.records(0)[-1]

    def after_input_ms(self) -> list[float | None]:
        """The milestones of the last record."""
        return [None if time is None else (time - self.ns(0)) / NS_PER_MS for time in self.last.times]


@pytest.fixture
def session() -> Session:
    """One whose viewer has seen a frame."""
    session = Session()
    session.send(0, 4)
    session.tell(0)
    return session


def test_the_two_halves_make_one_record(session: Session) -> None:
    session.send(1, 5)
    session.tell(1, pressed=-3, press_seq=5)
    assert session.after_input_ms() == [-3, 0, 2, 5, 6, 8, 11, 12, 15, 17, 22]
    assert session.last.is_answer and session.last.uncertainty_ns == 500_000
    totals = session.totals.times.snapshot("webrtc")
    assert list(totals) == [stage.name for stage in STAGES]
    assert totals["key_to_pixel"].sum_ns == 25 * NS_PER_MS and totals["key_to_pixel"].count == 1
    assert totals["decode"].count == 2 and session.joiner.times.snapshot("webrtc")["decode"].count == 2
    assert session.totals.counts == joining.JoinCounts(joined=2)


def test_a_wrong_clock_shifts_only_what_crosses_it(session: Session) -> None:
    session.send(1, 5)
    session.tell(1, pressed=-3, press_seq=5, clock=PageClock(SHIFT_MS + 1.5, 2.0))
    durations = dict(session.last.durations())
    truth = {"uplink": 3, "network": 3, "decode": 2, "present": 5, "key_to_pixel": 25, "input_to_pixel": 22}
    off = {name: durations[name] / NS_PER_MS - ms for name, ms in truth.items()}
    assert off == {"uplink": -1.5, "network": 1.5, "decode": 0, "present": 0, "key_to_pixel": 0, "input_to_pixel": 1.5}
    assert all(abs(value) <= session.last.uncertainty_ns / NS_PER_MS for value in off.values())


def test_moments_that_a_wrong_clock_puts_before_their_cause_are_put_after_it(session: Session) -> None:
    session.send(1, 5)
    session.tell(1, clock=PageClock(SHIFT_MS - 4, 4.0))
    assert session.after_input_ms()[Milestone.SENT :] == [12, 12, 13, 18]


def test_a_browser_that_tells_less_gives_less(session: Session) -> None:
    session.send(1, 5)
    session.tell(1, received=None, decoded=None)
    known = dict(session.last.durations())
    assert {"network", "decode", "present", "key_to_pixel"}.isdisjoint(known) and known["delivery"] == 11 * NS_PER_MS


def test_the_first_frame_of_an_input_answers_it_and_no_other(session: Session) -> None:
    for seq, action in ((1, 5), (2, 5), (3, 7)):
        session.send(seq, action)
        session.tell(seq)
    assert [record.is_answer for record in session.joiner.records(0)] == [False, True, False, True]


def test_a_viewer_that_comes_late_does_not_wait_for_old_inputs(session: Session) -> None:
    session.send(1, 5, viewer="late")
    session.tell(1, viewer="late")
    assert not session.last.is_answer
    session.send(2, 6, viewer="late")
    session.tell(2, viewer="late")
    assert session.last.is_answer


def test_a_press_that_another_message_followed_is_no_uplink(session: Session) -> None:
    session.send(1, 6)
    session.tell(1, pressed=-30, press_seq=5)
    durations = dict(session.last.durations())
    assert "uplink" not in durations and durations["key_to_pixel"] == 52 * NS_PER_MS


@pytest.mark.parametrize(
    "given",
    [
        pytest.param({"presented": -60}, id="before it was sent"),
        pytest.param({"presented": 5000}, id="in time to come"),
        pytest.param({"received": 90, "presented": 22}, id="presented before it was received"),
        pytest.param({"clock": PageClock(SHIFT_MS, 501.0)}, id="no idea what the time is"),
        pytest.param({"clock": PageClock(1e12, 0.0)}, id="another machine's clock"),
    ],
)
def test_what_cannot_be_is_not_counted(session: Session, given: dict[str, Any]) -> None:
    session.send(1, 5)
    session.tell(1, **given)
    assert session.totals.counts == joining.JoinCounts(joined=1, implausible=1)
    session.tell(1)
    assert session.totals.counts.joined == 2, "nothing of it was kept"


def test_what_nobody_sent_is_not_counted(session: Session) -> None:
    session.tell(7)
    session.tell(0)
    session.tell(0, viewer="stranger")
    session.tell(0, viewer=None)
    assert session.totals.counts == joining.JoinCounts(joined=1, unknown=4)


def test_a_frame_that_is_sent_again_counts_once(session: Session) -> None:
    session.send(1, 5)
    session.send(1, 5)
    session.tell(1)
    session.send(1, 5)
    session.tell(1)
    assert (session.totals.counts.joined, session.totals.counts.unknown) == (2, 1)


def test_an_old_frame_that_is_shown_to_a_newcomer_does_not_count(session: Session) -> None:
    frame = session.frame(1, 5)
    late_ns = session.ns(60_000)
    session.joiner.sent("new", "webrtc", frame, paced_ns=late_ns, encoded_ns=late_ns, sent_ns=late_ns)
    assert len(session.joiner.records(0)) == 1


def test_an_input_of_a_pause_does_not_count(session: Session) -> None:
    frame = session.frame(200, 5)
    stamps = frame.stamps._replace(action_received=session.ns(-7000))
    frame = frame._replace(stamps=stamps)
    session.joiner.sent("v", "webrtc", frame, paced_ns=session.ns(8), encoded_ns=session.ns(11), sent_ns=session.ns(12))
    session.clock.advance(10)
    session.tell(200)
    assert session.last.is_presented and not session.last.is_answer


def test_frames_that_nobody_tells_of_are_counted_and_forgotten(session: Session) -> None:
    for seq in range(1, 301):
        session.send(seq)
    assert session.totals.counts.unpresented == 300 - 256
    session.joiner.left("v")
    session.joiner.left("v")
    assert session.totals.counts == joining.JoinCounts(joined=1, unpresented=300)
    session.tell(300)
    assert session.totals.counts.unknown == 1


def test_memory_is_bounded(session: Session) -> None:
    for seq in range(1, 2500):
        session.send(seq)
    assert len(session.joiner.records(0)) == 2048
    assert [record.id.seq for record in session.joiner.records(session.ns(-40))] == [2498, 2499]


def test_viewers_of_one_encode_each_tell_of_it() -> None:
    session = Session()
    for seq, action in ((0, 4), (1, 5)):
        frame = session.frame(seq, action)
        session.clock.advance(0.04)
        session.joiner.shown(frame)
        session.joiner.encoded(frame, "mjpeg")
        session.clock.advance(0.02)
        session.tell(seq, viewer=None, received=None, decoded=None, presented=60, pressed=-5, press_seq=5)
        session.tell(seq, viewer=None, received=None, decoded=None, presented=61)
        session.tell(seq, viewer=None, received=None, decoded=None, presented=9000)
    assert session.totals.counts == joining.JoinCounts(joined=4, implausible=2)
    answers = [(record.is_answer, record.times[Milestone.PRESSED] is not None) for record in session.joiner.records(0)]
    assert answers == [(False, False), (False, False), (True, True), (True, False)]
    assert "send" not in session.totals.times.snapshot("mjpeg") and session.joiner.transport_of(None) == "mjpeg"


def test_a_frame_shown_before_anybody_watched_is_left_out() -> None:
    session = Session()
    session.joiner.encoded(session.frame(0), "mjpeg")
    assert session.joiner.records(0) == [] and session.joiner.transport_of(None) is None
    for seq in range(100):
        session.joiner.shown(session.frame(seq))
    session.joiner.encoded(session.frame(0), "mjpeg")
    assert session.joiner.records(0) == []
