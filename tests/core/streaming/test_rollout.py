from __future__ import annotations

import pickle
import threading

import pytest

from realtime_engine.core.streaming.controls import StreamingControls
from realtime_engine.core.streaming.rollout import AppliedAction, ChunkRequest, RolloutInput, SessionInput

ACTIONS = [AppliedAction(number, f"action {number}", 10 * number) for number in range(6)]


@pytest.fixture
def player() -> SessionInput:
    return SessionInput({"seed": 3})


def test_a_request_is_sealed_by_the_first_look(player: SessionInput) -> None:
    player.apply({"move": 1}, ["a"], ACTIONS[1])
    request = ChunkRequest("s", 4, player)
    player.apply({"move": 2}, ["b"], ACTIONS[2])
    assert (request.session_id, request.sequence_id, request.context, request.read_ns) == ("s", 4, {"seed": 3}, None)
    assert (request.conditioning, request.events) == ({"move": 2}, ("a", "b"))
    player.apply({"move": 3}, ["c"], ACTIONS[3])
    assert (request.conditioning, request.events) == ({"move": 2}, ("a", "b"))
    assert request.read_ns is not None
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
    assert came.read_ns == request.read_ns


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


def test_a_request_has_nothing_of_an_action_after_its_state(player: SessionInput) -> None:
    controls = StreamingControls(["motion"])

    def apply(number: int, events: list[str]) -> None:
        player.apply({"move": number}, events, ACTIONS[number])
        controls.update({"motion": number}, number, player.state, ["motion"])

    apply(1, ["a"])
    first, second = (ChunkRequest("s", number, player, controls) for number in range(2))
    controls.sample(0, ["motion"])
    apply(2, ["b"])
    assert (first.conditioning, first.events) == ({"move": 1}, ("a",))
    assert (second.conditioning, second.events) == ({"move": 2}, ("b",))
    assert controls.finish(0)[0] == RolloutInput({"move": 1}, ACTIONS[1])
