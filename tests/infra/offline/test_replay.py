"""The messages that a replay sends to the engine, line by line."""

from __future__ import annotations

import random
from typing import Any

import pytest
from pydantic import BaseModel, Field

from realtime_engine import Action, Attach, Reset
from realtime_engine.core.messages import InboxMsg
from realtime_engine.infra.control_log import ControlLog, Entry, LogError
from realtime_engine.infra.controls import Controls, ControlWindow, KeyBinding
from realtime_engine.infra.demo import Demo
from realtime_engine.infra.frame import ActionSeqs
from realtime_engine.infra.offline import Replay
from realtime_engine.testing import ScriptedEngine


class Fields(BaseModel):
    prompt: str = Field("", max_length=20)
    seed: int = Field(default_factory=lambda: random.randrange(10**9))


def to_conditioning(window: ControlWindow) -> dict[str, Any]:
    if window.field_values["prompt"] == "raise":
        raise KeyError("no such word")
    return {"keys": window.keys, **window.field_values}


def make(*entries: Entry, fields: dict[str, Any] | None = None, **demo: Any) -> Replay:
    controls = Controls(keys=(KeyBinding("KeyW", "Forward"), KeyBinding("KeyS", "Back")), fields=Fields)
    declared = Demo("demo", "Demo", lambda options: ScriptedEngine(), controls, to_conditioning, **demo)
    return Replay(declared, ControlLog(entries), "s", rate_hz=10, fields=fields)


def attach(drawn: dict[str, Any] | None = None, **fields: Any) -> Entry:
    return Entry(0.0, {"type": "attach", "fields": fields, "drawn": drawn or {}}, 0, 2)


def says(seq: int, chunk: int | None = None, t: float = 0.0, **more: Any) -> Entry:
    return Entry(t, {"v": 1, "type": "controls", "seq": seq, **more}, chunk, seq)


def own(kind: str, chunk: int, **more: Any) -> Entry:
    return Entry(0.0, {"type": kind, **more}, chunk, 9)


def only(messages: list[InboxMsg]) -> Any:
    (message,) = messages
    return message


def test_without_a_log_a_session_begins_with_the_given_fields() -> None:
    replay = make(fields={"seed": 4, "prompt": "ice"})
    begin, action = replay.due(0, 0)
    assert begin == Attach("s", {"seed": 4, "prompt": "ice"})
    assert action == Action("s", {"keys": (), "prompt": "ice", "seed": 4}, (), None)
    assert replay.due(100, 100) == [] and replay.fields == {"seed": 4, "prompt": "ice"}


def test_what_was_drawn_when_it_was_served_is_drawn_again() -> None:
    replay = make(attach({"seed": 77}, prompt="ice"), own("act", 2))
    assert only(replay.due(0, 0)).context == {"prompt": "ice"}  # as then: nobody had set the seed
    assert replay.due(1, 1) == []
    assert only(replay.due(2, 2)).conditioning["seed"] == 77


def test_given_fields_win_over_those_of_the_log() -> None:
    replay = make(attach({"seed": 77}, prompt="ice"), fields={"seed": 5})
    assert only(replay.due(0, 0)).context == {"prompt": "ice", "seed": 5}


def test_each_message_is_an_action_before_its_chunk() -> None:
    edge = {"seq": 0, "kind": "key_down", "code": "KeyW"}
    replay = make(attach(seed=1), says(1, 2, keys=["KeyW"], edges=[edge]), says(2, 2, keys=[]), says(3, 5))
    replay.due(1, 1)
    first, second = replay.due(2, 2)
    assert (first.conditioning["keys"], first.action_id) == (("KeyW",), 1)
    assert [event["code"] for event in first.events] == ["KeyW"]
    assert (second.conditioning["keys"], second.events, second.action_id) == ((), (), 2)
    assert replay.due(4, 4) == [] and only(replay.due(7, 7)).action_id == 3


def test_times_decide_in_a_log_by_hand() -> None:
    replay = make(says(1, t=0.31, keys=["KeyW"]))
    replay.due(0, 0)
    assert replay.due(3, 3) == []
    assert only(replay.due(4, 4)).conditioning["keys"] == ("KeyW",)


def test_what_is_held_stays_until_the_log_lets_go_of_it() -> None:
    replay = make(attach(seed=1), says(1, 0, keys=["KeyW"]), own("act", 9000), own("release", 9001))
    replay.due(0, 0)
    assert only(replay.due(9000, 9000)).conditioning["keys"] == ("KeyW",)
    released = only(replay.due(9001, 9001))
    assert released.conditioning["keys"] == () and released.events[0]["kind"] == "key_up"


def test_a_reset_waits_for_the_chunks_before_it() -> None:
    log = (attach(seed=1), own("reset", 4, fields={"seed": 2}), own("act", 4), own("begun", 6, accepted=True))
    replay = make(*log)
    replay.due(0, 0)
    assert replay.due(4, 3) == []
    reset, action = replay.due(5, 4)
    assert reset == Reset("s", {"seed": 2}) and action.conditioning["seed"] == 2
    assert only(replay.due(6, 6)).conditioning["seed"] == 2 and replay.fields["seed"] == 2


def test_a_reset_that_was_refused_changes_no_field() -> None:
    replay = make(attach(seed=1), own("reset", 1, fields={"seed": 2}), own("begun", 2, accepted=False))
    replay.due(1, 1)
    assert only(replay.due(2, 2)).conditioning["seed"] == 1


def test_inputs_that_the_demo_cannot_use_are_left_out_as_when_served() -> None:
    replay = make(attach(seed=1), says(1, 1, fields={"prompt": "raise"}), says(2, 2, fields={"prompt": "ice"}))
    replay.due(0, 0)
    assert replay.due(1, 1) == [] and only(replay.due(2, 2)).conditioning["prompt"] == "ice"


def test_fields_that_the_demo_refuses_are_named() -> None:
    with pytest.raises(ValueError, match="refuses fields: prompt: String should have at most 20"):
        make(fields={"prompt": "x" * 21})
    with pytest.raises(ValueError, match="colour: no such field"):
        make(fields={"colour": 1})
    with pytest.raises(ValueError, match="cannot start without prompt"):
        make(required_context=("prompt",))
    with pytest.raises(LogError, match="line 2: drawn: "):
        make(attach({"seed": "many"}))


def test_lines_that_the_demo_refuses_are_named() -> None:
    replay = make(attach(seed=1), says(7, 0, fields={"seed": "many"}))
    with pytest.raises(LogError, match="line 7: demo 'demo' refuses it: .*integer"):
        replay.due(0, 0)
    replay = make(attach(seed=1), own("reset", 0, fields={"seed": "many"}))
    with pytest.raises(LogError, match="line 9: fields: "):
        replay.due(0, 0)


def test_each_controller_has_its_own_devices() -> None:
    def guest(seq: int, chunk: int, **more: Any) -> Entry:
        return Entry(0.0, {"v": 1, "type": "controls", "seq": seq, **more}, chunk, seq, controller=1)

    joined = Entry(0.0, {"type": "join"}, 1, 3, controller=1)
    left = Entry(0.0, {"type": "leave"}, 4, 6, controller=1)
    released = Entry(0.0, {"type": "release"}, 3, 5, controller=1)
    replay = make(attach(), says(7, 0, keys=["KeyW"]), joined, guest(1, 2, keys=["KeyS"]), released, left)
    replay.due(0, 0)
    replay.due(1, 1)
    assert only(replay.due(2, 2)).action_id == ActionSeqs({0: 7, 1: 1})
    assert only(replay.due(3, 3)).events[0]["controller"] == 1
    assert only(replay.due(4, 4)).action_id == 7


def test_a_message_of_a_controller_that_has_not_joined_is_named() -> None:
    message = Entry(0.0, {"v": 1, "type": "controls", "seq": 1}, 1, 4, controller=2)
    with pytest.raises(LogError, match="line 4: controller 2 has not joined"):
        make(attach(), message).due(1, 1)
    joined = Entry(0.0, {"type": "join"}, 1, 5)
    with pytest.raises(LogError, match="line 5: slot 0 is taken"):
        make(attach(), joined).due(1, 1)
