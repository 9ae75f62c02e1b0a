from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from realtime_engine.server.sessions.hud import Hud
from realtime_engine.testing import ManualClock


def sent_by(*names: str) -> tuple[Hud, ManualClock, list[Mapping[str, Any]]]:
    clock, messages = ManualClock(), list[Mapping[str, Any]]()
    return Hud(names, messages.append, clock), clock, messages


def test_the_named_values_are_sent_at_most_five_times_a_second() -> None:
    hud, clock, messages = sent_by("score", "lives")
    for score in range(60):
        hud.on_chunk({"score": score, "step_ms": 1.0})
        clock.advance(1 / 60)
    assert [message["values"] for message in messages] == [{"score": float(score)} for score in (0, 12, 24, 36, 48)]


def test_unchanged_values_are_repeated_every_two_seconds() -> None:
    hud, clock, messages = sent_by("score")
    for _ in range(5):
        hud.on_chunk({"score": 1})
        clock.advance(1)
    assert len(messages) == 3


def test_nothing_is_sent_without_names_and_no_value_that_json_cannot_hold() -> None:
    hud, _, messages = sent_by()
    hud.on_chunk({"score": 1})
    assert messages == []
    hud, _, messages = sent_by("score", "loss")
    hud.on_chunk({"score": 1, "loss": math.nan})
    assert [message["values"] for message in messages] == [{"score": 1.0}]
