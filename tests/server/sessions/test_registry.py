from realtime_engine.server.sessions.registry import is_full, retry_after_s


def test_it_is_full_when_every_place_is_occupied() -> None:
    assert [is_full(occupied, 2) for occupied in (0, 1, 2, 3)] == [False, False, True, True]


def test_ask_again_when_the_longest_idle_session_would_be_ended() -> None:
    assert retry_after_s([1.0, 26.5], 30.0) == 4
    assert retry_after_s([0.0], 30.0) == 10
    assert retry_after_s([29.99], 30.0) == 1
    assert retry_after_s([45.0], 30.0) == 1
    assert retry_after_s([], 5.0) == 5
