import json
from typing import Any

import pytest
from pydantic import BaseModel

from realtime_engine.core.clock import NS_PER_S
from realtime_engine.infra.controls import Axis, ControlGroup, Controls, KeyBinding
from realtime_engine.infra.controls.group import MAX_CONTROLLERS, TooManyControllers
from realtime_engine.infra.frame import ActionSeqs, FrameId
from realtime_engine.testing import ManualClock


class Fields(BaseModel):
    prompt: str = ""


def declared(merge: Any) -> Controls:
    return Controls(
        keys=tuple(KeyBinding(code, code) for code in ("KeyW", "KeyS", "KeyA", "KeyD", "Space")),
        axes=(
            Axis("forward", "KeyS", "KeyW", stick=("move", "y"), gamepad=1, invert=True),
            Axis("turn", "KeyA", "KeyD", stick=("move", "x"), gamepad=0),
        ),
        pointer="lock",
        wheel=True,
        gamepad=True,
        sticks=("move",),
        dead_zone=0.0,
        fields=Fields,
        merge=merge,
    )


class Players:
    """Several controllers of one session, each of which numbers its messages from 1."""

    def __init__(self, count: int, merge: Any = "last") -> None:
        self.clock = ManualClock(5_000)
        self.group = ControlGroup(declared(merge), self.clock)
        self.seqs: dict[int, int] = dict.fromkeys([0, *(self.group.join() for _ in range(count - 1))], 0)

    def send(self, slot: int, **members: Any) -> list[dict[str, Any]]:
        self.seqs[slot] = self.seqs.get(slot, 0) + 1
        message = {"v": 1, "type": "controls", "seq": self.seqs[slot], **members}
        return self.group.receive(json.dumps(message), slot)

    def hold(self, slot: int, *keys: str) -> None:
        assert self.send(slot, keys=list(keys)) == []

    @property
    def window(self) -> Any:
        return self.group.window()


def test_one_controller_is_as_its_control_state() -> None:
    players = Players(1)
    players.hold(0, "KeyW")
    assert (players.window.keys, players.window.action_id, players.window.controllers) == (("KeyW",), 1, ())
    assert players.group.take_edges() == ()


def test_each_controller_has_its_own_numbering_and_keys() -> None:
    players = Players(2, "sum")
    for _ in range(3):
        players.hold(0, "KeyW")
    players.hold(1, "Space")
    assert players.seqs == {0: 3, 1: 1}
    assert set(players.window.keys) == {"KeyW", "Space"}
    assert [window.keys for window in players.window.controllers] == [("KeyW",), ("Space",)]
    assert players.window.action_id == ActionSeqs({0: 3, 1: 1})
    players.hold(0)
    assert players.window.keys == ("Space",)


def test_a_frame_names_to_each_controller_its_own_action() -> None:
    frame = FrameId("s", 1, 0, 0, ActionSeqs({0: 3, 2: 9}))
    assert [frame.seen_by(slot).action_id for slot in range(3)] == [3, None, 9]
    alone = FrameId("s", 1, 0, 0, 5)
    assert alone.seen_by(0) is alone and alone.seen_by(1).action_id is None


def test_last_follows_the_newest_change_among_those_that_hold_something() -> None:
    players = Players(2, "last")
    players.hold(0, "KeyW")
    players.hold(1, "KeyS")
    assert players.window.keys == ("KeyS",)
    players.hold(0, "KeyW")  # a repetition is no change
    assert players.window.keys == ("KeyS",)
    players.hold(1)
    assert players.window.keys == ("KeyW",)
    players.hold(0)
    assert players.window.keys == ()


def test_sum_adds_the_axes_and_unites_the_keys() -> None:
    players = Players(3, "sum")
    players.hold(0, "KeyW")
    players.hold(1, "KeyW", "Space")
    players.hold(2, "KeyS")
    window = players.window
    assert window.axis("forward") == 1.0 and window.axis("KeyS", "KeyW") == 1.0
    assert window.held("KeyW") and window.held("KeyS") and window.held("Space")
    players.send(0, sticks={"move": [0.5, 0.0]})
    players.send(1, sticks={"move": [0.25, 0.0]})
    assert players.window.sticks["move"] == (0.75, 0.0)
    players.send(2, sticks={"move": [1.0, 0.0]})
    assert players.window.sticks["move"] == (1.0, 0.0) and players.window.axis("turn") == 1.0
    players.send(0, gamepad={"axes": [0.5], "buttons": [1]})
    players.send(1, gamepad={"axes": [0.75, 0.0]})
    assert players.window.gamepad.axes == (1.0, 0.0) and players.window.gamepad.pressed(0)


@pytest.mark.parametrize(
    ("ballots", "elected"),
    [
        ([("KeyW",), ("KeyW",), ("KeyS",)], {"KeyW"}),
        ([("KeyW",), ("KeyS",), ()], set()),
        ([("KeyW", "KeyD"), ("KeyW", "KeyA"), ("KeyD",)], {"KeyW", "KeyD"}),
        ([("Space",), ("KeyW",), ("KeyW",)], {"KeyW"}),
        ([("Space",), ("KeyW",), ("Space",), ("KeyW",)], {"KeyW", "Space"}),
        ([(), (), ()], set()),
    ],
)
def test_vote_elects_keys(ballots: list[tuple[str, ...]], elected: set[str]) -> None:
    players = Players(len(ballots), "vote")
    for slot, keys in enumerate(ballots):
        players.hold(slot, *keys)
    assert set(players.window.keys) == elected


def test_vote_takes_the_mean_of_analog_values_and_the_majority_of_buttons() -> None:
    players = Players(3, "vote")
    players.send(0, sticks={"move": [1.0, 0.0]}, pointer={"buttons": 1})
    players.send(1, sticks={"move": [0.5, 0.0]}, pointer={"buttons": 3})
    players.send(2, pointer={"buttons": 4})
    assert players.window.sticks["move"] == (0.75, 0.0)
    assert players.window.pointer.buttons == 1
    players.send(0, gamepad={"axes": [1.0], "buttons": [1]})
    players.send(1, gamepad={"axes": [-0.5], "buttons": [0]})
    assert players.window.gamepad.axes == (0.25,)


def test_all_hands_every_window_to_the_demo_even_of_one_controller() -> None:
    players = Players(1, "all")
    players.hold(0, "KeyW")
    assert [window.keys for window in players.window.controllers] == [("KeyW",)]
    slot = players.group.join()
    players.hold(slot, "KeyA")
    assert [(window.slot, window.keys) for window in players.window.controllers] == [(0, ("KeyW",)), (1, ("KeyA",))]
    assert players.window.controllers[1].axis("turn") == -1.0


def test_movements_add_up_and_stay_when_a_controller_leaves() -> None:
    players = Players(2, "last")
    players.send(0, edges=[{"kind": "pointer_move", "seq": 1, "dx": 3, "dy": 1}])
    players.send(
        1, edges=[{"kind": "pointer_move", "seq": 1, "dx": 4, "dy": 0}, {"kind": "wheel", "seq": 2, "dx": 0, "dy": 5}]
    )
    before = players.window
    assert (before.pointer.travel_x, before.pointer.travel_y, before.wheel.travel_y) == (7.0, 1.0, 5.0)
    players.group.leave(1)
    after = players.window
    assert (after.pointer.travel_x, after.wheel.travel_y, after.action_id) == (7.0, 5.0, 1)


def test_edges_name_the_controller_and_equal_numbers_are_no_duplicates() -> None:
    players = Players(2)
    edge = {"kind": "key_down", "seq": 1, "code": "Space"}
    players.send(0, edges=[edge])
    players.send(1, edges=[edge])
    first, second = players.group.take_edges()
    assert "controller" not in first and second["controller"] == 1 and first["seq"] == second["seq"] == 1


def test_fields_are_shared_and_the_newest_change_counts() -> None:
    players = Players(2)
    players.seqs[0] = 100
    players.send(0, fields={"prompt": "ice"})
    players.send(1, fields={"prompt": "lava"})  # its numbers are lower, and they are its own
    assert players.window.field_values == {"prompt": "lava"}
    stale = {"v": 1, "type": "controls", "seq": 50, "fields": {"prompt": "late"}}
    players.group.receive(stale, 0)
    assert players.window.field_values == {"prompt": "lava"}


def test_holds_expire_for_each_controller_apart() -> None:
    players, released = Players(2, "sum"), list[int]()
    players.group.on_release = released.append
    players.hold(0, "KeyW")
    players.clock.advance(1.5)
    players.hold(1, "Space")
    assert players.group.next_expiry_ns == 5_000 + 2 * NS_PER_S
    players.clock.advance(1.0)
    assert players.window.keys == ("Space",) and released == [0]
    assert [(edge["kind"], edge["code"]) for edge in players.group.take_edges()] == [("key_up", "KeyW")]
    assert players.group.release(1) and not players.group.release(1)
    assert players.window.keys == () and released == [0, 1]


def test_a_slot_is_free_again_for_a_new_numbering() -> None:
    players = Players(3)
    players.seqs[1] = 500
    players.send(1, keys=["KeyW"], fields={"prompt": "first"}, edges=[{"kind": "key_down", "seq": 700, "code": "KeyW"}])
    players.group.take_edges()
    players.group.leave(1)
    assert players.group.slots == (0, 2)
    assert players.group.join() == 1
    players.seqs[1] = 0
    players.send(1, fields={"prompt": "second"}, edges=[{"kind": "key_down", "seq": 1, "code": "KeyW"}])
    assert players.window.field_values == {"prompt": "second"} and len(players.group.take_edges()) == 1
    assert players.window.action_id == ActionSeqs({1: 1})


def test_the_number_of_controllers_is_limited() -> None:
    group = ControlGroup(declared("last"))
    for _ in range(MAX_CONTROLLERS - 1):
        group.join()
    with pytest.raises(TooManyControllers, match="16"):
        group.join()
    group.leave(3)
    with pytest.raises(ValueError, match="slot 4 is taken"):
        group.join(4)
    assert group.join(3) == 3


def test_an_unknown_policy_is_refused() -> None:
    with pytest.raises(ValueError, match="merge must be one of last, sum, vote, all, got 'mean'"):
        declared("mean")
