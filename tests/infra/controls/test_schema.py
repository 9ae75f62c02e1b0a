import json

import pytest

from realtime_engine.core import messages as core
from realtime_engine.infra.controls import error_message, event_message, frame_message, protocol_schema
from realtime_engine.infra.controls.schema import ErrorMessage, EventMessage, FrameMessage
from realtime_engine.infra.frame import FrameId


@pytest.mark.parametrize(
    ("event", "members"),
    [
        (core.Attached("s", epoch=1), {"event": "attached", "epoch": 1}),
        (core.ResetDone("s", epoch=2), {"event": "reset_done", "epoch": 2}),
        (core.ActiveChanged("s", False, epoch=1), {"event": "active_changed", "epoch": 1, "active": False}),
        (core.Rejected("s", "full"), {"event": "rejected", "epoch": 0, "reason": "full"}),
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
    }
