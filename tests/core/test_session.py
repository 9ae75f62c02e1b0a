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
    one.quarantine.record_failure(1)
    one.begin_epoch({"seed": 2}, 2)
    assert (one.active, one.seq, one.epoch, one.context) == (False, 7, 2, {"seed": 2})
    assert one.take_conditioning() == {}
    assert one.applied == NOTHING_APPLIED
    assert one.quarantine.quarantined, "a reset does not end the quarantine"


def test_a_session_that_failed_is_quarantined_until_one_clean_step():
    quarantine = FailureQuarantine()
    assert not quarantine.quarantined
    quarantine.record_failure(1)
    assert quarantine.quarantined
    quarantine.record_success()
    assert not quarantine.quarantined


def test_failures_in_a_row_are_counted_and_a_clean_step_clears_them():
    quarantine = FailureQuarantine()
    for tick in range(3):
        quarantine.record_failure(tick)
    assert quarantine.failures_in_row == 3
    quarantine.record_success()
    assert quarantine.failures_in_row == 0


def clean_steps_until_released(quarantine: FailureQuarantine) -> int:
    steps = 0
    while quarantine.quarantined:
        quarantine.record_success()
        steps += 1
    return steps


def test_each_relapse_doubles_the_quarantine_up_to_256():
    quarantine, lengths = FailureQuarantine(), []
    for tick in range(12):
        quarantine.record_failure(tick)
        lengths.append(clean_steps_until_released(quarantine))
    assert lengths == [1, 2, 4, 8, 16, 32, 64, 128, 256, 256, 256, 256]


def test_a_relapse_is_forgiven_after_a_long_while():
    quarantine = FailureQuarantine()
    for tick in range(5):
        quarantine.record_failure(tick)
        clean_steps_until_released(quarantine)
    quarantine.record_failure(4 + 1025)
    assert clean_steps_until_released(quarantine) == 1


def test_ten_thousand_relapses_do_not_overflow():
    quarantine = FailureQuarantine()
    for tick in range(10_000):
        quarantine.record_failure(tick)
        quarantine.record_success()
    assert quarantine.quarantined


TENTH = 100_000_000


class Engine:
    """Detaches a session once it was asked ``stubborn`` times."""

    def __init__(self, stubborn: float, error: BaseException | None = None) -> None:
        self.stubborn = stubborn
        self.error = error or RuntimeError("not yet")
        self.asked: list[str] = []

    def detach(self, session_id: str) -> None:
        self.asked.append(session_id)
        if len(self.asked) <= self.stubborn:
            raise self.error


def pending_detaches(engine: Engine) -> PendingDetaches:
    return PendingDetaches(engine.detach, LogLimiter(logging.getLogger("test"), ManualClock()))


def test_identities_count_epochs_and_go_on_with_sequence_numbers():
    identities = Identities()
    assert identities.allocate("a") == (1, 0)
    identities.store("a", 1, 30)
    assert identities.last_epoch("a") == 1
    assert identities.allocate("a") == (2, 30)


def test_an_unknown_identity_has_epoch_zero():
    assert Identities().last_epoch("a") == 0


def test_identities_are_bounded_and_the_oldest_is_dropped_first():
    identities = Identities()
    for n in range(65_537):
        identities.store(f"s{n}", 3, 5)
    assert identities.last_epoch("s0") == 0
    assert identities.last_epoch("s1") == 3
    assert identities.last_epoch("s65536") == 3


def test_an_identity_that_is_stored_again_is_the_newest():
    identities = Identities()
    identities.store("a", 1, 0)
    for n in range(65_535):
        identities.store(f"s{n}", 1, 0)
    identities.allocate("a")
    identities.store("a", 2, 0)
    identities.store("another", 1, 0)
    assert identities.last_epoch("a") == 2


def test_a_detach_that_works_is_not_pending():
    engine = Engine(stubborn=0)
    pending = pending_detaches(engine)
    assert pending.detach("a", 0) is None
    assert not pending and pending.next_ns is None


def test_a_detach_that_fails_is_tried_eight_times_with_back_off():
    engine = Engine(stubborn=float("inf"))
    pending = pending_detaches(engine)
    assert pending.detach("a", 0) is engine.error
    moments = []
    while (when := pending.next_ns) is not None:
        pending.retry_due(when - 1)
        moments.append(when)
        pending.retry_due(when)
    assert len(engine.asked) == 8
    distances = [later - earlier for earlier, later in zip([0, *moments], moments, strict=False)]
    assert distances == [TENTH << n for n in range(7)]
    pending.retry_due(10**18)
    assert len(engine.asked) == 8, "nothing is retried for ever"


def test_a_retry_that_works_ends_it():
    engine = Engine(stubborn=1)
    pending = pending_detaches(engine)
    pending.detach("a", 0)
    assert pending
    pending.retry_due(TENTH)
    assert not pending
    assert engine.asked == ["a", "a"]


def test_retry_now_does_not_wait_for_the_back_off():
    engine = Engine(stubborn=2)
    pending = pending_detaches(engine)
    pending.detach("a", 0)
    assert not pending.retry_now("a")
    assert pending.retry_now("a")
    assert not pending
    assert pending.retry_now("unknown") and len(engine.asked) == 3


def test_retry_now_works_after_the_last_attempt():
    engine = Engine(stubborn=8)
    pending = pending_detaches(engine)
    pending.detach("a", 0)
    while pending.next_ns is not None:
        pending.retry_due(pending.next_ns)
    assert pending.retry_now("a") and not pending


def test_a_second_detach_that_works_forgets_the_first_that_failed():
    """Else a later retry would detach a later session of the same id."""
    engine = Engine(stubborn=1)
    pending = pending_detaches(engine)
    pending.detach("a", 0)
    assert pending.detach("a", 1) is None
    pending.retry_due(10 * TENTH)
    assert len(engine.asked) == 2


def test_system_exit_is_contained():
    engine = Engine(stubborn=1, error=SystemExit(3))
    assert isinstance(pending_detaches(engine).detach("a", 0), SystemExit)


def test_one_failing_detach_does_not_delay_another():
    engine = Engine(stubborn=2)
    pending = pending_detaches(engine)
    pending.detach("a", 0)
    pending.detach("b", 5)
    pending.retry_due(TENTH)
    assert engine.asked == ["a", "b", "a"]
    assert pending.next_ns == TENTH + 5


def test_a_reply_is_released_after_its_steps():
    replies = PendingReplies()
    paused, resumed = ActiveChanged("a", False, epoch=1), ActiveChanged("b", False, epoch=1)
    replies.add(paused, 1)
    replies.add(resumed, 2)
    assert replies and replies.has("a") and replies.has("b") and not replies.has("c")
    assert replies.on_step() == [paused]
    assert not replies.has("a")
    assert replies.on_step() == [resumed]
    assert not replies and replies.on_step() == []


def test_the_replies_of_one_session_are_popped_in_order_and_the_others_stay():
    replies = PendingReplies()
    first, other, second = ActiveChanged("a", False, epoch=1), Attached("b", epoch=1), ActiveChanged("a", True, epoch=1)
    for event in (first, other, second):
        replies.add(event, 1)
    assert replies.pop("a") == [first, second]
    assert replies.pop() == [other]
    assert replies.pop() == []
