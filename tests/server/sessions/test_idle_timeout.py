from realtime_engine.core.clock import NS_PER_S
from realtime_engine.server.sessions.idle_timeout import IdleTracker


def seconds(value: float) -> int:
    return round(value * NS_PER_S)


def attention() -> IdleTracker:
    return IdleTracker(seconds(100), grace_s=2, timeout_s=30)


def test_a_new_session_is_shown_for_a_while_and_then_waits_for_somebody() -> None:
    new = attention()
    assert new.wants_frames(seconds(101.9)) and not new.wants_frames(seconds(102))
    assert not new.is_abandoned(seconds(129.9)) and new.is_abandoned(seconds(130))


def test_a_watched_session_is_never_abandoned() -> None:
    watched = attention()
    watched.watch(True, seconds(101))
    assert watched.wants_frames(seconds(9999)) and not watched.is_abandoned(seconds(9999))
    assert watched.next_change_ns(seconds(9999)) is None and watched.idle_ns(seconds(9999)) == 0


def test_the_time_runs_from_when_the_last_viewer_left() -> None:
    left = attention()
    left.watch(True, seconds(101))
    left.watch(False, seconds(500))
    assert left.wants_frames(seconds(501.9)) and not left.wants_frames(seconds(502))
    assert not left.is_abandoned(seconds(529.9)) and left.is_abandoned(seconds(530))


def test_a_glance_counts_as_watching_for_a_moment() -> None:
    glanced = attention()
    glanced.glance(seconds(110))
    assert glanced.wants_frames(seconds(111)) and not glanced.wants_frames(seconds(112))
    assert not glanced.is_abandoned(seconds(139))


def test_controls_keep_a_session_but_do_not_have_it_shown() -> None:
    steered = attention()
    steered.hear(seconds(120))
    assert not steered.wants_frames(seconds(121))
    assert not steered.is_abandoned(seconds(149)) and steered.is_abandoned(seconds(150))


def test_every_change_is_foretold() -> None:
    plain = attention()
    assert plain.next_change_ns(seconds(100)) == seconds(102)
    assert plain.next_change_ns(seconds(102)) == seconds(130)
    plain.hear(seconds(125))
    assert plain.next_change_ns(seconds(130)) == seconds(155)


def test_no_grace_and_a_short_timeout() -> None:
    hasty = IdleTracker(0, grace_s=0, timeout_s=1)
    assert not hasty.wants_frames(0) and hasty.next_change_ns(0) == seconds(1)
    late = IdleTracker(0, grace_s=5, timeout_s=1)
    assert late.next_change_ns(0) == seconds(1)
