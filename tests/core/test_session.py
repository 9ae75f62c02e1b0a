from __future__ import annotations

import logging

from realtime_engine.core.loglimit import LogLimiter
from realtime_engine.core.messages import ActiveChanged, Attached
from realtime_engine.core.session import (
    NOTHING_APPLIED,
    Applied,
    FailureQuarantine,
    Identities,
    PendingDetaches,
    PendingReplies,
    Session,
)
from realtime_engine.testing import ManualClock


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
    trust = FailureQuarantine()
    assert not trust.apart
    trust.failed(1)
    assert trust.apart
    trust.stepped_cleanly()
    assert not trust.apart


def test_failures_in_a_row_are_counted_and_a_clean_step_clears_them():
    trust = FailureQuarantine()
    for tick in range(3):
        trust.failed(tick)
    assert trust.failures_in_row == 3
    trust.stepped_cleanly()
    assert trust.failures_in_row == 0


def clean_steps_until_trusted(trust: FailureQuarantine) -> int:
    steps = 0
    while trust.apart:
        trust.stepped_cleanly()
        steps += 1
    return steps


def test_each_relapse_doubles_the_time_apart_up_to_256():
    trust, lengths = FailureQuarantine(), []
    for tick in range(12):
        trust.failed(tick)
        lengths.append(clean_steps_until_trusted(trust))
    assert lengths == [1, 2, 4, 8, 16, 32, 64, 128, 256, 256, 256, 256]


def test_a_relapse_is_forgiven_after_a_long_while():
    trust = FailureQuarantine()
    for tick in range(5):
        trust.failed(tick)
        clean_steps_until_trusted(trust)
    trust.failed(4 + 1025)
    assert clean_steps_until_trusted(trust) == 1


def test_ten_thousand_relapses_do_not_overflow():
    trust = FailureQuarantine()
    for tick in range(10_000):
        trust.failed(tick)
        trust.stepped_cleanly()
    assert trust.apart


TENTH = 100_000_000


class Engine:
    """Lets go of a session once it was asked ``stubborn`` times."""

    def __init__(self, stubborn: float, error: BaseException | None = None) -> None:
        self.stubborn = stubborn
        self.error = error or RuntimeError("not yet")
        self.asked: list[str] = []

    def detach(self, session_id: str) -> None:
        self.asked.append(session_id)
        if len(self.asked) <= self.stubborn:
            raise self.error


def releases(engine: Engine) -> PendingDetaches:
    return PendingDetaches(engine.detach, LogLimiter(logging.getLogger("test"), ManualClock()))


def test_identities_count_epochs_and_go_on_with_sequence_numbers():
    identities = Identities()
    assert identities.begin("a") == (1, 0)
    identities.end("a", 1, 30)
    assert identities.epoch("a") == 1
    assert identities.begin("a") == (2, 30)


def test_an_unknown_identity_has_epoch_zero():
    assert Identities().epoch("a") == 0


def test_identities_are_bounded_and_the_oldest_goes_first():
    identities = Identities()
    for n in range(65_537):
        identities.end(f"s{n}", 3, 5)
    assert identities.epoch("s0") == 0
    assert identities.epoch("s1") == 3
    assert identities.epoch("s65536") == 3


def test_an_identity_that_leaves_again_is_young_again():
    identities = Identities()
    identities.end("a", 1, 0)
    for n in range(65_535):
        identities.end(f"s{n}", 1, 0)
    identities.begin("a")
    identities.end("a", 2, 0)
    identities.end("another", 1, 0)
    assert identities.epoch("a") == 2


def test_a_release_that_works_is_not_held():
    engine = Engine(stubborn=0)
    held = releases(engine)
    assert held.release("a", 0) is None
    assert not held.waiting and held.next_ns is None


def test_a_release_that_fails_is_tried_again_at_growing_distances_and_eight_times_in_all():
    engine = Engine(stubborn=float("inf"))
    held = releases(engine)
    assert held.release("a", 0) is engine.error
    moments = []
    while (when := held.next_ns) is not None:
        held.retry(when - 1)
        moments.append(when)
        held.retry(when)
    assert len(engine.asked) == 8
    distances = [later - earlier for earlier, later in zip([0, *moments], moments, strict=False)]
    assert distances == [TENTH << n for n in range(7)]
    held.retry(10**18)
    assert len(engine.asked) == 8, "nothing is retried for ever"


def test_a_retry_that_works_ends_it():
    engine = Engine(stubborn=1)
    held = releases(engine)
    held.release("a", 0)
    assert held.waiting
    held.retry(TENTH)
    assert not held.waiting
    assert engine.asked == ["a", "a"]


def test_settle_tries_out_of_turn():
    engine = Engine(stubborn=2)
    held = releases(engine)
    held.release("a", 0)
    assert not held.settle("a")
    assert held.settle("a")
    assert not held.waiting
    assert held.settle("unknown") and len(engine.asked) == 3


def test_settle_works_after_the_retries_were_given_up():
    engine = Engine(stubborn=8)
    held = releases(engine)
    held.release("a", 0)
    while held.next_ns is not None:
        held.retry(held.next_ns)
    assert held.settle("a") and not held.waiting


def test_a_second_release_that_works_forgets_the_first_that_failed():
    """Else a later retry would detach a session that has attached anew."""
    engine = Engine(stubborn=1)
    held = releases(engine)
    held.release("a", 0)
    assert held.release("a", 1) is None
    held.retry(10 * TENTH)
    assert len(engine.asked) == 2


def test_even_an_exit_is_held_back():
    engine = Engine(stubborn=1, error=SystemExit(3))
    assert isinstance(releases(engine).release("a", 0), SystemExit)


def test_one_stubborn_session_does_not_hold_up_another():
    engine = Engine(stubborn=2)
    held = releases(engine)
    held.release("a", 0)
    held.release("b", 5)
    held.retry(TENTH)
    assert engine.asked == ["a", "b", "a"]
    assert held.next_ns == TENTH + 5


def test_an_answer_comes_when_its_steps_have_passed():
    answers = PendingReplies()
    paused, resumed = ActiveChanged("a", False, epoch=1), ActiveChanged("b", False, epoch=1)
    answers.hold(paused, 1)
    answers.hold(resumed, 2)
    assert answers and answers.holds("a") and answers.holds("b") and not answers.holds("c")
    assert answers.step_passed() == [paused]
    assert not answers.holds("a")
    assert answers.step_passed() == [resumed]
    assert not answers and answers.step_passed() == []


def test_one_session_is_taken_out_in_its_order_and_the_others_stay():
    answers = PendingReplies()
    first, other, second = ActiveChanged("a", False, epoch=1), Attached("b", epoch=1), ActiveChanged("a", True, epoch=1)
    for event in (first, other, second):
        answers.hold(event, 1)
    assert answers.take("a") == [first, second]
    assert answers.take() == [other]
    assert answers.take() == []
