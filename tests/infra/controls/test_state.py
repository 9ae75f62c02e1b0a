import json

import pytest
from pydantic import BaseModel, Field

from realtime_engine.infra.controls import Axis, Controls, ControlState, KeyBinding
from realtime_engine.testing import ManualClock


class Fields(BaseModel):
    prompt: str = Field("", max_length=20)
    seed: int = 0
    tags: list[str] = []


CONTROLS = Controls(
    keys=tuple(KeyBinding(code, code) for code in ("KeyW", "KeyS", "Space")),
    aliases={"ArrowUp": "KeyW"},
    axes=(Axis("forward", "KeyS", "KeyW"),),
    pointer="lock",
    wheel=True,
    gamepad=True,
    sticks=("move",),
    dead_zone=0.2,
    fields=Fields,
)
FULL = {
    "keys": ["Space", "KeyW"],
    "pointer": {"buttons": 3, "x": 0.25, "y": 0.75},
    "gamepad": {"axes": [0.0, -1.0], "buttons": [1]},
    "sticks": {"move": [0.0, -1.0]},
}


class Client:
    """A client with its clock and its message count."""

    def __init__(self, controls=CONTROLS):
        self.clock = ManualClock(5_000)
        self.state = ControlState(controls, self.clock)
        self.seq = 0

    def send(self, *, type="controls", seq=None, **members):
        self.seq = max(self.seq + 1, seq or 0)
        message = {"v": 1, "type": type, "seq": self.seq if seq is None else seq, **members}
        return self.state.receive(json.dumps(message))

    @property
    def keys(self):
        return self.state.window().keys

    def edges(self):
        return [(edge["kind"], edge.get("code", edge.get("button"))) for edge in self.state.take_edges()]


@pytest.fixture
def client():
    return Client()


def assert_nothing_held(state):
    window = state.window()
    assert (window.keys, window.pointer.buttons, dict(window.sticks), window.gamepad) == ((), 0, {}, None)


def test_before_the_first_message_nothing_is_held(client):
    assert_nothing_held(client.state)
    window = client.state.window()
    assert (window.action_id, window.fields, client.state.take_edges()) == (None, Fields(), ())
    assert client.state.next_expiry_ns is None


def test_a_full_message_is_what_the_window_shows(client):
    assert client.send(**FULL) == []
    window = client.state.window()
    assert window.keys == ("Space", "KeyW")
    assert (window.pointer.buttons, window.pointer.x, window.pointer.y) == (3, 0.25, 0.75)
    assert window.gamepad.axes == (0.0, -1.0) and window.gamepad.pressed(0)
    assert window.sticks == {"move": (0.0, -1.0)}
    assert window.action_id == 1


def test_a_device_that_a_message_leaves_out_stays(client):
    client.send(**FULL)
    client.send(keys=["KeyS"])
    window = client.state.window()
    assert window.keys == ("KeyS",)
    assert (window.pointer.buttons, window.pointer.x) == (3, 0.25)
    assert window.gamepad is not None
    client.send(gamepad=None)
    assert client.state.window().gamepad is None


def test_what_the_demo_does_not_declare_is_neither_kept_nor_an_error():
    client = Client(Controls())
    assert client.send(**FULL, edges=[{"seq": 1, "kind": "key_down", "code": "KeyW"}]) == []
    assert client.send(edges=[{"seq": 2, "kind": "pointer_move", "dx": 1, "dy": 1}]) == []
    assert_nothing_held(client.state)
    assert client.state.take_edges() == ()
    assert client.state.window().pointer.travel_x == 0.0


def test_the_newest_of_opposing_keys_counts_and_the_older_comes_back(client):
    client.send(keys=["KeyW", "KeyS"])
    assert client.keys == ("KeyS",)
    client.send(keys=["KeyW", "KeyS", "ArrowUp"])
    assert client.keys == ("KeyW",)
    client.send(keys=["KeyW"])
    assert client.state.window().axis("forward") == 1.0


def test_an_older_message_rolls_nothing_back_and_its_edges_are_taken(client):
    client.send(seq=10, keys=["KeyW"])
    client.send(seq=9, keys=["KeyS"], edges=[{"seq": 3, "kind": "key_down", "code": "KeyS"}])
    client.send(seq=10, keys=[])
    assert client.keys == ("KeyW",)
    assert client.state.window().action_id == 10
    assert client.edges() == [("key_down", "KeyS")]


def test_a_late_message_still_tells_of_what_no_newer_one_has_told(client):
    client.send(seq=10, keys=["KeyW"])
    client.send(seq=9, fields={"prompt": "ice"}, pointer={"x": 0.1})
    window = client.state.window()
    assert (window.fields.prompt, window.pointer.x, window.action_id) == ("ice", 0.1, 10)


def test_edges_are_taken_once_in_order_with_aliases_resolved(client):
    down = {"seq": 40, "t": 1.5, "kind": "key_down", "code": "ArrowUp"}
    up = {"seq": 41, "t": 2.0, "kind": "key_up", "code": "ArrowUp"}
    client.send(edges=[down])
    client.send(edges=[down, up])
    assert client.state.take_edges() == ({**down, "code": "KeyW"}, {**up, "code": "KeyW"})
    client.send(edges=[down, up])
    assert client.state.take_edges() == ()


def test_a_press_and_release_between_two_windows_leaves_its_edges(client):
    press = [{"seq": 1, "kind": "key_down", "code": "Space"}, {"seq": 2, "kind": "key_up", "code": "Space"}]
    client.send(keys=[], edges=press)
    assert client.keys == ()
    assert client.edges() == [("key_down", "Space"), ("key_up", "Space")]


def test_travel_adds_up_and_counts_no_edge_twice(client):
    move = {"seq": 1, "kind": "pointer_move", "dx": 3, "dy": -1}
    client.send(edges=[move, {**move, "seq": 2}, {"seq": 3, "kind": "wheel", "dx": 0, "dy": -120}])
    client.send(edges=[move], pointer={"x": 0.1, "y": 0.2})
    window = client.state.window()
    assert (window.pointer.travel_x, window.pointer.travel_y) == (6.0, -2.0)
    assert (window.wheel.travel_x, window.wheel.travel_y) == (0.0, -120.0)


@pytest.mark.parametrize("how", ["blur", "release_all", "silence"])
def test_a_release_lets_go_of_everything_and_leaves_edges(client, how):
    client.send(**FULL, fields={"prompt": "ice"})
    if how == "blur":
        client.send(type="blur")
    elif how == "release_all":
        client.state.release_all()
    else:
        client.clock.advance(2.0)
    assert_nothing_held(client.state)
    assert client.state.window().fields.prompt == "ice"
    assert client.state.window().pointer.x == 0.25
    edges = client.state.take_edges()
    assert [(edge["kind"], edge.get("code", edge.get("button")), edge["seq"]) for edge in edges] == [
        ("key_up", "Space", None),
        ("key_up", "KeyW", None),
        ("button_up", 0, None),
        ("button_up", 2, None),
    ]
    client.state.release_all()
    assert client.state.take_edges() == ()


def test_a_release_names_also_the_key_that_another_one_overruled(client):
    client.send(keys=["KeyW", "KeyS"])
    client.state.release_all()
    assert client.edges() == [("key_up", "KeyW"), ("key_up", "KeyS")]


def test_a_late_blur_releases_nothing_that_a_newer_message_holds(client):
    client.send(seq=5, sticks={"move": [0, 1]})
    client.send(seq=8, keys=["KeyW"])
    client.send(type="blur", seq=7)
    window = client.state.window()
    assert (window.keys, dict(window.sticks), window.action_id) == (("KeyW",), {}, 8)


def test_a_message_from_before_a_blur_brings_nothing_back(client):
    client.send(type="blur", seq=8)
    client.send(seq=7, **FULL)
    assert_nothing_held(client.state)


def test_held_keys_expire_after_two_seconds_of_silence_and_come_back(client):
    client.send(keys=["KeyW"])
    assert client.state.next_expiry_ns == client.clock.now_ns() + 2_000_000_000
    client.clock.advance_ns(1_999_999_999)
    assert client.keys == ("KeyW",)
    client.clock.advance_ns(1)
    assert client.keys == ()
    assert client.state.next_expiry_ns is None
    client.send(keys=["KeyW"])
    assert client.keys == ("KeyW",)
    assert client.edges() == [("key_up", "KeyW")]


def test_silence_is_noticed_by_the_message_that_ends_it(client):
    client.send(keys=["KeyW"])
    client.clock.advance(2.5)
    client.send(type="ping")
    assert client.keys == ()
    assert client.edges() == [("key_up", "KeyW")]


def test_silence_is_noticed_when_only_the_edges_are_taken(client):
    client.send(keys=["KeyW"])
    client.clock.advance(2.5)
    assert client.edges() == [("key_up", "KeyW")]


@pytest.mark.parametrize(
    ("message", "alive"),
    [
        ({"type": "ping"}, True),
        ({"fields": {"seed": 3}}, True),
        ({"seq": 0, "keys": []}, True),
        ({"fields": {"seed": "many"}}, True),
        ({"type": "nonsense"}, False),
    ],
)
def test_a_valid_message_of_any_kind_shows_that_the_client_lives(client, message, alive):
    client.send(keys=["KeyW"])
    client.clock.advance(1.5)
    client.send(**message)
    client.clock.advance(1.0)
    assert client.keys == (("KeyW",) if alive else ())


def test_a_ping_is_answered_with_the_clock_and_is_no_action(client):
    (pong,) = client.send(type="ping", t=17.5)
    assert pong == {"v": 1, "type": "pong", "seq": 1, "t": 17.5, "server_ns": 5_000}
    assert client.state.window().action_id is None


def test_a_refused_message_changes_nothing_at_all(client):
    client.send(seq=1, keys=["KeyW"])
    before = client.state.window()
    edges = [{"seq": 1, "kind": "key_down", "code": "Space"}]
    (reply,) = client.send(seq=-2, keys=["Space"], edges=edges, fields={"prompt": "fine"})
    assert reply["error"]["code"] == "bad_message" and reply["error"]["field"] == "seq"
    assert client.state.window() == before
    assert client.state.take_edges() == ()


def test_a_refused_part_of_a_message_leaves_the_rest_in_effect(client):
    client.send(**FULL)
    edges = [{"seq": 1, "kind": "key_down", "code": "KeyS"}, {"seq": 2, "kind": "tap", "x": None, "y": 0}]
    fields = {"prompt": "fine", "seed": "many", "fog": 1}
    replies = client.send(keys=["KeyS"], pointer={"x": None}, gamepad={"axes": ["left"]}, edges=edges, fields=fields)
    named = {(reply["error"]["code"], reply["error"]["field"]) for reply in replies}
    bad_members = {("bad_message", name) for name in ("pointer.x", "gamepad.axes.0", "edges.1.x")}
    assert named == bad_members | {("bad_field", "seed"), ("bad_field", "fog")}
    assert {reply["seq"] for reply in replies} == {2}
    window = client.state.window()
    assert (window.keys, window.field_values["prompt"], window.action_id) == (("KeyS",), "fine", 2)
    assert (window.pointer.x, window.pointer.buttons, window.gamepad.axes) == (0.25, 3, (0.0, -1.0))
    assert client.edges() == [("key_down", "KeyS")]


def test_the_fields_of_a_window_are_its_own(client):
    client.send(fields={"tags": ["a"]})
    window = client.state.window()
    window.fields.tags.append("b")
    assert client.state.window().fields.tags == ["a"]
    assert client.state.window().fields.model_fields_set == {"tags"}


def test_fields_may_be_set_outside_of_a_message(client):
    assert client.state.update_fields({"prompt": "ice"}) == []
    (reply,) = client.state.update_fields({"seed": []})
    assert (reply["type"], reply["seq"], reply["error"]["field"]) == ("error", None, "seed")
    client.send(fields={"seed": 2})
    assert client.state.window().field_values == {"prompt": "ice", "seed": 2, "tags": []}


@pytest.mark.parametrize("value", [float("nan"), float("inf"), 2**63, object(), "crash" * 10])
def test_fields_set_outside_of_a_message_are_checked_like_those_in_one(client, value):
    (reply,) = client.state.update_fields({"prompt": value})
    assert reply["type"] == "error"
    assert client.state.window().fields == Fields()


def test_edges_that_nobody_takes_are_bounded_and_counted(client):
    for first in range(0, 2560, 256):
        edges = [{"seq": seq, "kind": "key_down", "code": "Space"} for seq in range(first, first + 256)]
        client.send(edges=edges)
    assert client.state.dropped_edges == 2560 - 1024
    assert len(client.state.take_edges()) == 1024
