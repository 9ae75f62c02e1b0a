from __future__ import annotations

import pytest

from realtime_engine.infra.acceleration import Prewarm, PrewarmStep
from realtime_engine.testing import ManualClock


def steps(*names: str, run=lambda: None) -> list[PrewarmStep]:
    return [PrewarmStep(name, run) for name in names]


def test_steps_run_in_order_and_every_change_is_told():
    ran, events, clock = [], [], ManualClock()

    def work(name: str) -> PrewarmStep:
        return PrewarmStep(name, lambda: (ran.append(name), clock.advance(2)))

    report = Prewarm([work("compile"), work("capture")], on_event=events.append, clock=clock).run()
    assert ran == ["compile", "capture"]
    assert [(event.step, event.index, event.total, event.state, event.elapsed_s) for event in events] == [
        ("compile", 0, 2, "started", 0),
        ("compile", 0, 2, "done", 2),
        ("capture", 1, 2, "started", 2),
        ("capture", 1, 2, "done", 4),
    ]
    assert (report.ending, report.done, report.failed, report.skipped) == ("complete", ("compile", "capture"), {}, ())
    assert report.elapsed_s == 4


def test_a_step_that_fails_keeps_no_other_from_running(caplog):
    events = []
    sequence = [PrewarmStep("bad", lambda: 1 / 0), *steps("good")]
    report = Prewarm(sequence, on_event=events.append).run()
    assert report.ending == "complete" and report.done == ("good",)
    assert isinstance(report.failed["bad"], ZeroDivisionError)
    assert [event.state for event in events] == ["started", "failed", "started", "done"]
    assert events[1].error is report.failed["bad"]
    assert "bad failed" in caplog.text


def test_after_the_deadline_no_step_begins(caplog):
    clock, events = ManualClock(start_ns=10**12), []
    prewarm = Prewarm(
        steps("a", "b", "c", "d", run=lambda: clock.advance(2)), deadline_s=4, on_event=events.append, clock=clock
    )
    report = prewarm.run()
    assert (report.ending, report.done, report.skipped) == ("deadline", ("a", "b"), ("c", "d"))
    assert [event.step for event in events if event.state == "skipped"] == ["c", "d"]
    assert "skipped: c, d" in caplog.text
    assert prewarm.should_stop


def test_a_sequence_that_ends_late_but_complete_is_complete():
    clock = ManualClock()
    assert Prewarm(steps("a", run=lambda: clock.advance(9)), deadline_s=4, clock=clock).run().ending == "complete"


def test_cancelled_from_within():
    seen = []
    prewarm = Prewarm([PrewarmStep("a", lambda: (prewarm.cancel(), seen.append(prewarm.should_stop))), *steps("b")])
    report = prewarm.run()
    assert (report.ending, report.done, report.skipped) == ("cancelled", ("a",), ("b",))
    assert seen == [True]


def test_cancelled_before_it_runs():
    prewarm = Prewarm(steps("a"))
    prewarm.cancel()
    assert prewarm.run().skipped == ("a",)


def test_a_listener_that_raises_is_told_no_more(caplog):
    told = []

    def listener(event) -> None:
        told.append(event)
        raise ValueError("the listener")

    assert Prewarm(steps("a", "b"), on_event=listener).run().done == ("a", "b")
    assert len(told) == 1 and "the listener" in caplog.text


def test_it_runs_once():
    prewarm = Prewarm([])
    assert prewarm.run().ending == "complete"
    with pytest.raises(RuntimeError, match="create a new one"):
        prewarm.run()


def test_arguments_are_checked():
    with pytest.raises(ValueError, match="distinct, got a, a"):
        Prewarm(steps("a", "a"))
    with pytest.raises(ValueError, match="more than 0, not 0"):
        Prewarm([], deadline_s=0)
