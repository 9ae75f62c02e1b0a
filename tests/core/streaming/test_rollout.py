from __future__ import annotations

import pickle
import threading

import pytest

from realtime_engine.core.streaming.rollout import AppliedAction, ChunkRequest, ControlHistory, SessionInput

ACTIONS = [AppliedAction(number, f"action {number}", 10 * number) for number in range(6)]


@pytest.fixture
def player() -> SessionInput:
    return SessionInput({"seed": 3})


def test_a_request_is_sealed_by_the_first_look(player: SessionInput) -> None:
    player.apply({"move": 1}, ["a"], ACTIONS[1])
    request = ChunkRequest("s", 4, player)
    player.apply({"move": 2}, ["b"], ACTIONS[2])
    assert (request.session_id, request.sequence_id, request.context, request.sealed) == ("s", 4, {"seed": 3}, None)
    assert (request.conditioning, request.events) == ({"move": 2}, ("a", "b"))
    player.apply({"move": 3}, ["c"], ACTIONS[3])
    assert (request.conditioning, request.events) == ({"move": 2}, ("a", "b"))
    assert request.sealed is not None and request.sealed.applied == ACTIONS[2]
    following = ChunkRequest("s", 5, player)
    assert (following.events, following.conditioning) == (("c",), {"move": 3})


def test_a_request_that_is_not_read_takes_no_events(player: SessionInput) -> None:
    player.apply({}, ["a"], ACTIONS[1])
    ChunkRequest("s", 0, player)
    assert ChunkRequest("s", 1, player).events == ("a",)


def test_of_too_many_events_the_newest_stay(player: SessionInput) -> None:
    player.apply({}, list(range(5000)), ACTIONS[1])
    assert ChunkRequest("s", 0, player).events == tuple(range(904, 5000))


def test_a_request_travels_sealed(player: SessionInput) -> None:
    request = ChunkRequest("s", 0, player)
    player.apply({"move": 1}, ["a"], ACTIONS[1])
    came = pickle.loads(pickle.dumps(request))
    assert (came.conditioning, came.events, came.context) == ({"move": 1}, ("a",), {"seed": 3})
    assert ChunkRequest("s", 1, player).events == ()
    assert came.sealed == request.sealed


def test_concurrent_reads_take_every_event_once(player: SessionInput) -> None:
    requests = [ChunkRequest("s", number, player) for number in range(200)]
    taken: list[tuple[int, ...]] = []
    start = threading.Barrier(3)

    def look() -> None:
        start.wait()
        for request in requests:
            taken.append(request.events)  # noqa: PERF401 - one after another beside the writer

    threads = [threading.Thread(target=look) for _ in range(2)]
    for thread in threads:
        thread.start()
    start.wait()
    for number in range(1000):
        player.apply({}, [number], ACTIONS[1])
    for thread in threads:
        thread.join()
    rest = ChunkRequest("s", 200, player).events
    assert [event for request in requests for event in request.events] + list(rest) == list(range(1000))
    assert sorted(taken) == sorted(2 * [request.events for request in requests])


# -- control history


def test_a_version_stands_for_the_action_that_set_it() -> None:
    history = ControlHistory(["c"])
    for number in range(4):
        history.applied(ACTIONS[number], {"c": number + 1})
    assert [history.action_of({"c": version}) for version in (1, 1, 3, 4, 4)] == [ACTIONS[n] for n in (0, 0, 2, 3, 3)]


def test_a_version_stands_for_later_actions_that_left_it() -> None:
    history = ControlHistory(["prompt", "motion"])
    history.applied(ACTIONS[0], {"prompt": 1, "motion": 1})
    history.applied(ACTIONS[1], {"motion": 2})
    assert history.action_of({"prompt": 1, "motion": 1}) == ACTIONS[0]
    history.applied(ACTIONS[2], {"motion": 3})
    history.applied(ACTIONS[3], {"prompt": 2})
    assert history.action_of({"prompt": 1, "motion": 2}) == ACTIONS[1]
    assert history.action_of({"prompt": 1, "motion": 3}) == ACTIONS[2]
    assert history.action_of({"prompt": 2, "motion": 3}) == ACTIONS[3]


def test_without_controls_there_is_no_action() -> None:
    assert ControlHistory([]).action_of({}) is None


def test_the_history_is_bounded_without_outputs() -> None:
    history = ControlHistory(["c"])
    for number in range(10_000):
        history.applied(AppliedAction(number), {"c": number + 1})
    assert len(history._versions["c"]) == 4096
    assert history.action_of({"c": 9_000}) == AppliedAction(8_999)


def test_a_version_that_is_forgotten_is_not_taken_for_a_newer_one() -> None:
    history = ControlHistory(["steer"])
    for number in range(1, 5001):
        history.applied(AppliedAction(number, number), {"steer": number})
    assert history.action_of({"steer": 3}) == AppliedAction()
    assert history.action_of({"steer": 4000}) == AppliedAction(4000, 4000)
