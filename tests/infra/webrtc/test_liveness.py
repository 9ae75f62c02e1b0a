from __future__ import annotations

from realtime_engine.infra.webrtc.liveness import Liveness, Patience

MS = 1_000_000
PATIENCE = Patience(connect_s=10, silence_s=4)


def first_vanished_ms(liveness: Liveness, until_ms: int, sent: dict[int, int], received: dict[int, int]) -> int | None:
    """Look every 100 ms; ``sent`` and ``received`` give the counters from a moment on."""
    for now in range(0, until_ms + 1, 100):
        counts = [next((v for at, v in sorted(c.items(), reverse=True) if at <= now), 0) for c in (sent, received)]
        if liveness.has_vanished(now * MS, connected=True, sent=counts[0], received=counts[1]):
            return now
    return None


def rising(until_ms: int, from_ms: int = 0) -> dict[int, int]:
    return {at: at // 100 + 1 for at in range(from_ms, until_ms, 100)}


def test_a_viewer_that_answers_stays() -> None:
    answers = {at: at for at in range(1000, 60_000, 1500)}
    assert first_vanished_ms(Liveness(PATIENCE, 0), 60_000, rising(60_000), answers) is None


def test_a_viewer_that_stops_answering_is_given_up_in_time() -> None:
    assert first_vanished_ms(Liveness(PATIENCE, 0), 60_000, rising(60_000), {1000: 1, 2000: 2}) == 6200


def test_nothing_is_held_against_a_viewer_that_is_sent_nothing() -> None:
    assert first_vanished_ms(Liveness(PATIENCE, 0), 600_000, {0: 1, 100: 2}, {200: 1}) is None


def test_silence_counts_from_the_first_frame_after_a_rest() -> None:
    sent = {0: 1} | rising(60_000, from_ms=30_000)
    assert first_vanished_ms(Liveness(PATIENCE, 0), 60_000, sent, {200: 1}) == 34_100


def test_a_viewer_that_never_connects_is_given_up() -> None:
    liveness = Liveness(PATIENCE, 5000 * MS)
    assert not liveness.has_vanished(15_000 * MS, connected=False, sent=0, received=0)
    assert liveness.has_vanished(15_001 * MS, connected=False, sent=0, received=0)


def test_it_looks_often_enough() -> None:
    assert 5 < Patience().silence_s and Patience().silence_s + 2 * Patience().poll_s <= 7.5
