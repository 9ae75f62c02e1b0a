"""What the hands write is what the controls protocol reads."""

from __future__ import annotations

import json

from realtime_engine.client.input import InputState
from realtime_engine.infra.controls import Controls, ControlState, KeyBinding
from realtime_engine.testing import ManualClock

from .support import Fields

CONTROLS = Controls(keys=(KeyBinding("KeyW", "On"), KeyBinding("Space", "Jump")), pointer="lock", fields=Fields)


def receiver() -> ControlState:
    return ControlState(CONTROLS, ManualClock())


def test_keys_are_held_in_order_until_they_are_released() -> None:
    hands, state = InputState(), receiver()
    for _, text in (hands.press("Space"), hands.press("KeyW"), hands.release("Space")):
        assert state.receive(text) == []
    assert hands.keys == ("KeyW",) == state.window().keys
    edges = [(edge["kind"], edge["code"]) for edge in state.take_edges()]
    assert edges == [("key_down", "Space"), ("key_down", "KeyW"), ("key_up", "Space")]


def test_a_repeated_press_or_release_is_no_edge() -> None:
    hands, state = InputState(), receiver()
    for _, text in (hands.press("KeyW"), hands.press("KeyW"), hands.release("KeyW"), hands.release("KeyW")):
        assert state.receive(text) == []
    assert [edge["kind"] for edge in state.take_edges()] == ["key_down", "key_up"]


def test_a_tap_leaves_edges_only() -> None:
    hands, state = InputState(), receiver()
    hands.press("KeyW")
    state.receive(hands.tap("Space")[1])
    assert state.window().keys == ("KeyW",)
    assert [(edge["kind"], edge["code"]) for edge in state.take_edges()] == [("key_down", "Space"), ("key_up", "Space")]


def test_pointer_and_fields_arrive() -> None:
    hands, state = InputState(), receiver()
    assert state.receive(hands.move_pointer(3, -1.5)[1]) == []
    assert state.receive(hands.set_fields({"seed": 7})[1]) == []
    (edge,) = state.take_edges()
    assert (edge["kind"], edge["dx"], edge["dy"]) == ("pointer_move", 3, -1.5)
    assert state.window().field_values["seed"] == 7


def test_messages_and_edges_are_numbered_from_0_and_the_window_knows_the_newest() -> None:
    hands, state = InputState(), receiver()
    sent = [hands.press("KeyW"), hands.tap("Space"), hands.move_pointer(1, 1)]
    assert [seq for seq, _ in sent] == [0, 1, 2]
    assert [json.loads(text)["seq"] for _, text in sent] == [0, 1, 2]
    for _, text in sent:
        state.receive(text)
    assert [edge["seq"] for edge in state.take_edges()] == [0, 1, 2, 3]
    assert state.window().action_id == 2


def test_a_heartbeat_repeats_held_keys_and_pings() -> None:
    hands, state = InputState(), receiver()
    (ping,) = hands.heartbeat()
    assert json.loads(ping)["type"] == "ping"
    hands.press("KeyW")
    again, ping = hands.heartbeat()
    state.receive(again)
    assert state.window().keys == ("KeyW",)
    (pong,) = state.receive(ping)
    assert pong["type"] == "pong"


def test_own_messages_are_completed_and_counted() -> None:
    hands, state = InputState(), receiver()
    state.receive(hands.press("KeyW")[1])
    seq, text = hands.number({"type": "blur"})
    assert (seq, state.receive(text), state.window().keys) == (1, [], ())
    assert hands.number({"type": "blur", "seq": 10})[0] == 10
    assert hands.press("Space")[0] == 11
