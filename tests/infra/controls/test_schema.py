import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from realtime_engine.core import messages as core
from realtime_engine.infra.controls import (
    FrameInfo,
    error_message,
    event_message,
    frame_message,
    parse_frame_message,
    protocol_schema,
    timing_message,
)
from realtime_engine.infra.controls.schema import (
    MAX_PENDING_EDGES,
    EdgeLog,
    ErrorMessage,
    EventMessage,
    FrameMessage,
    TimingMessage,
)
from realtime_engine.infra.frame import FrameId


@pytest.mark.parametrize(
    ("event", "members"),
    [
        (core.Attached("s", epoch=1), {"event": "attached", "epoch": 1}),
        (core.ResetDone("s", epoch=2), {"event": "reset_done", "epoch": 2}),
        (core.Finished("s", epoch=2), {"event": "finished", "epoch": 2}),
        (core.ActiveChanged("s", False, epoch=1), {"event": "active_changed", "epoch": 1, "active": False}),
        (core.Rejected("s", "no"), {"event": "rejected", "epoch": 0, "reason": "no", "code": "full"}),
        (core.Failed("s", "E: x", True, epoch=3), {"event": "failed", "epoch": 3, "error": "E: x", "fatal": True}),
        (core.Detached("s", epoch=3), {"event": "detached", "epoch": 3}),
    ],
)
def test_session_events_become_event_messages(event, members):
    message = event_message(event)
    assert message == {"v": 1, "type": "event", **members}
    EventMessage.model_validate(message)


def test_an_event_that_the_protocol_does_not_have_is_an_error():
    with pytest.raises(TypeError, match="expected one of Attached, .*SessionEvent"):
        event_message(core.SessionEvent("s"))


def test_an_error_message_is_one_of_the_protocol():
    message = error_message("bad_field", "x" * 1000, "\ud800", seq=3)
    body = ErrorMessage.model_validate(message).error
    assert (len(body.detail), body.field, message["seq"]) == (200, "?", 3)


def test_a_frame_message_carries_the_identity_of_its_frame():
    message = frame_message(FrameId("s", 2, 208, 1, 12), rtp=99)
    assert FrameMessage.model_validate(message).model_dump() == message
    assert message == {"v": 1, "type": "frame", "epoch": 2, "seq": 208, "index": 1, "action_seq": 12, "rtp": 99}


def test_a_frame_message_is_read_back():
    text = json.dumps(frame_message(FrameId("s", epoch=1, seq=20, frame_index=3, action_id=77), 4_000_000_000))
    assert parse_frame_message(text) == FrameInfo(epoch=1, seq=20, index=3, action_seq=77, rtp=4_000_000_000)


@pytest.mark.parametrize("text", ["", "no json", "[]", "7", '{"v":1,"type":"pong"}', '{"v":2,"type":"frame"}', "{}"])
def test_other_messages_are_not_read_as_frame_messages(text):
    assert parse_frame_message(text) is None


def test_the_schema_is_json_and_knows_every_message():
    schema = json.loads(json.dumps(protocol_schema()))
    models = [model for model in schema["$defs"].values() if "v" in model.get("properties", ())]
    assert all({"v", "type"} <= set(model["required"]) for model in models)
    assert {model["properties"]["type"]["const"] for model in models} == {
        "controls",
        "blur",
        "ping",
        "pong",
        "error",
        "event",
        "frame",
        "presented",
        "timing",
        "turn",
        "role",
        "takeover",
        "hud",
    }


def edge(seq):
    return {"seq": seq, "kind": "key_down", "code": "KeyW"}


def seqs(edges):
    return [taken["seq"] for taken in edges]


def test_edges_are_taken_once_and_in_order_of_their_sequence():
    log = EdgeLog()
    assert all(log.add(edge(seq)) for seq in (41, 40, 45, 43))
    assert seqs(log.drain()) == [40, 41, 43, 45]
    assert log.drain() == ()


def test_a_repeated_edge_is_refused_also_after_it_was_taken():
    log = EdgeLog()
    log.add(edge(5))
    assert not log.add(edge(5))
    log.drain()
    assert not log.add(edge(5))
    assert log.add(edge(4))
    assert seqs(log.drain()) == [4]


def test_an_edge_from_beyond_the_memory_counts_as_repeated():
    log = EdgeLog()
    log.add(edge(5000))
    assert not log.add(edge(5000 - 1024))
    assert log.add(edge(5000 - 1023))


def test_a_release_stands_after_all_that_was_sent_before_it_and_before_what_comes_later():
    log = EdgeLog()
    log.add(edge(7))
    log.add_own({"kind": "key_up", "code": "KeyW"})
    log.add(edge(8))
    log.add(edge(6))
    assert seqs(log.drain()) == [6, 7, None, 8]


def test_releases_keep_their_order():
    log = EdgeLog()
    for code in ("KeyW", "KeyA", "KeyB"):
        log.add_own({"kind": "key_up", "code": code})
    assert [taken["code"] for taken in log.drain()] == ["KeyW", "KeyA", "KeyB"]


def test_the_oldest_of_too_many_are_dropped_and_counted():
    log = EdgeLog()
    for seq in range(MAX_PENDING_EDGES + 10):
        log.add(edge(seq))
    assert log.dropped == 10
    taken = seqs(log.drain())
    assert (taken[0], taken[-1], len(taken)) == (10, MAX_PENDING_EDGES + 9, MAX_PENDING_EDGES)


@given(st.lists(st.one_of(st.integers(0, 3000), st.integers(0, 2**53 - 1)), max_size=200))
def test_the_window_agrees_with_a_set_of_all_that_was_seen(sent):
    log, seen, newest, accepted = EdgeLog(), set(), -1, []
    for seq in sent:
        expected = seq not in seen and seq > newest - 1024
        assert log.add(edge(seq)) is expected
        accepted += [seq] * expected
        seen.add(seq)
        newest = max(newest, seq)
    assert seqs(log.drain()) == sorted(accepted)


@pytest.mark.parametrize(
    "pipeline", [[], [{"stage": "denoise", "values": {"run_p50_ms": 50.25, "waiting": 0, "longest_idle_reason": None}}]]
)
def test_a_timing_message_may_have_the_stages_of_a_model(pipeline):
    message = timing_message("webrtc", {}, pipeline)
    assert message.get("pipeline", []) == pipeline
    assert TimingMessage.model_validate(message).model_dump(exclude_unset=True) == message
