from __future__ import annotations

from realtime_engine.core.session import NOTHING_APPLIED, Applied, Session, Trust


def session() -> Session:
    return Session("a", {"seed": 1}, epoch=1, seq=0)


def test_a_new_session_runs_with_nothing_applied():
    new = session()
    assert (new.active, new.epoch, new.seq, new.applied) == (True, 1, 0, NOTHING_APPLIED)
    assert new.take_conditioning() == {}


def test_the_newest_conditioning_replaces_the_last_and_persists():
    one = session()
    one.apply({"a": 1}, (), Applied(1, 10))
    one.apply({"b": 2}, (), Applied(2, 20))
    assert one.take_conditioning() == {"b": 2}
    assert one.take_conditioning() == {"b": 2}
    assert one.applied == Applied(2, 20)


def test_events_of_all_actions_are_handed_out_once_in_order():
    one = session()
    one.apply({"n": 1}, ("down",), Applied())
    one.apply({"n": 2}, ("up", "down"), Applied())
    assert one.take_conditioning() == {"n": 2, "events": ("down", "up", "down")}
    assert one.take_conditioning() == {"n": 2}


def test_what_is_handed_out_is_a_copy():
    one = session()
    one.apply({"n": 1}, (), Applied())
    one.take_conditioning()["n"] = 9
    assert one.take_conditioning() == {"n": 1}


def test_events_of_a_session_that_is_not_stepped_are_bounded_and_the_newest_stay():
    one = session()
    for n in range(10_000):
        one.apply({}, (n,), Applied())
    events = one.take_conditioning()["events"]
    assert events == tuple(range(10_000 - len(events), 10_000))
    assert len(events) == 4096


def test_a_new_epoch_keeps_the_pause_and_the_count_and_clears_the_rest():
    one = session()
    one.active, one.seq = False, 7
    one.apply({"n": 1}, ("down",), Applied(3, 30))
    one.trust.failed(1)
    one.begin_epoch({"seed": 2}, 2)
    assert (one.active, one.seq, one.epoch, one.context) == (False, 7, 2, {"seed": 2})
    assert one.take_conditioning() == {}
    assert one.applied == NOTHING_APPLIED
    assert one.trust.apart, "a reset is no way out of being stepped apart"


def test_a_session_that_failed_is_apart_until_one_clean_step():
    trust = Trust()
    assert not trust.apart
    trust.failed(1)
    assert trust.apart
    trust.stepped_cleanly()
    assert not trust.apart


def test_failures_in_a_row_are_counted_and_a_clean_step_clears_them():
    trust = Trust()
    for tick in range(3):
        trust.failed(tick)
    assert trust.failures_in_row == 3
    trust.stepped_cleanly()
    assert trust.failures_in_row == 0


def clean_steps_until_trusted(trust: Trust) -> int:
    steps = 0
    while trust.apart:
        trust.stepped_cleanly()
        steps += 1
    return steps


def test_each_relapse_doubles_the_time_apart_up_to_256():
    trust, lengths = Trust(), []
    for tick in range(12):
        trust.failed(tick)
        lengths.append(clean_steps_until_trusted(trust))
    assert lengths == [1, 2, 4, 8, 16, 32, 64, 128, 256, 256, 256, 256]


def test_a_relapse_is_forgiven_after_a_long_while():
    trust = Trust()
    for tick in range(5):
        trust.failed(tick)
        clean_steps_until_trusted(trust)
    trust.failed(4 + 1025)
    assert clean_steps_until_trusted(trust) == 1


def test_ten_thousand_relapses_do_not_overflow():
    trust = Trust()
    for tick in range(10_000):
        trust.failed(tick)
        trust.stepped_cleanly()
    assert trust.apart
