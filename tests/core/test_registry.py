from __future__ import annotations

import logging

from realtime_engine.core.loglimit import LogLimiter
from realtime_engine.core.registry import Identities, Releases
from realtime_engine.testing import ManualClock

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


def releases(engine: Engine) -> Releases:
    return Releases(engine.detach, LogLimiter(logging.getLogger("test"), ManualClock()))


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
