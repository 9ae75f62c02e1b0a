from __future__ import annotations

import dataclasses
import typing

import pytest

from realtime_engine import (
    Action,
    ActiveChanged,
    Attach,
    Attached,
    Chunk,
    Detach,
    Detached,
    Failed,
    InboxMsg,
    Rejected,
    Reset,
    ResetDone,
    SessionEvent,
    SetActive,
    Stamps,
)

SHAPES = {
    Attach: ["session_id", "context"],
    Detach: ["session_id"],
    Reset: ["session_id", "context"],
    Action: ["session_id", "conditioning", "events", "action_id"],
    SetActive: ["session_id", "active"],
    Chunk: ["session_id", "output", "stats", "seq", "epoch", "action_id", "stamps"],
}
EVENTS = [
    Attached("a", epoch=1),
    Rejected("a", "full", epoch=1),
    ResetDone("a", epoch=1),
    ActiveChanged("a", False, epoch=1),
    Detached("a", epoch=1),
    Failed("a", "ValueError: x", epoch=1),
]


@pytest.mark.parametrize("kind", SHAPES, ids=lambda kind: kind.__name__)
def test_fields_are_those_of_the_design_in_this_order(kind):
    assert [field.name for field in dataclasses.fields(kind)] == SHAPES[kind]


def test_defaults():
    action = Action("a")
    assert (action.conditioning, action.events, action.action_id) == ({}, (), None)
    assert Attach("a").context == {} and Reset("a").context == {}
    chunk = Chunk("a", 1)
    assert (chunk.stats, chunk.seq, chunk.epoch, chunk.action_id) == ({}, 0, 0, None)
    assert not Failed("a", "x").fatal


def test_inbox_messages_are_the_five():
    assert set(typing.get_args(InboxMsg)) == {Attach, Detach, Reset, Action, SetActive}


@pytest.mark.parametrize("message", [Attach("a"), Detach("a"), Reset("a"), Action("a"), SetActive("a", True), *EVENTS])
def test_messages_and_events_are_frozen(message):
    with pytest.raises(dataclasses.FrozenInstanceError):
        message.session_id = "b"


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: type(event).__name__)
def test_every_event_has_session_and_epoch(event):
    assert isinstance(event, SessionEvent)
    assert (event.session_id, event.epoch) == ("a", 1)


def test_the_epoch_of_an_id_that_was_never_attached_is_zero():
    assert Rejected("a", "who?").epoch == 0


def test_epoch_is_never_taken_for_another_field():
    with pytest.raises(TypeError):
        Attached("a", 1)


def test_events_of_different_kinds_differ():
    assert Attached("a", epoch=1) != Detached("a", epoch=1)
    assert Attached("a", epoch=1) == Attached("a", epoch=1)


def test_stamps_name_four_moments():
    assert Stamps._fields == ("action_received", "step_begin", "step_end", "emitted")
    assert Stamps().action_received is None
