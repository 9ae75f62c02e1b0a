from __future__ import annotations

from typing import Any

import pytest

from realtime_engine.infra.controls.camera import ControlEdge, PlayerClock


def key(t: float | None, kind: str = "key_down") -> dict[str, Any]:
    return {"kind": kind, "code": "KeyW", "seq": 1, "t": t}


def times(edges: list[ControlEdge]) -> list[float]:
    return [edge.at_s for edge in edges]


def test_the_edge_with_the_least_delay_sets_the_clock() -> None:
    clock = PlayerClock()
    assert times(clock.edges([key(1000)], 50.3)) == [pytest.approx(50.3)]
    assert times(clock.edges([key(2000)], 51.1)) == [pytest.approx(51.1)], (
        "0.2 s sooner than the first one made believe"
    )
    assert times(clock.edges([key(3000), key(3050)], 52.4)) == pytest.approx([52.1, 52.15], abs=1e-3)


def test_no_edge_is_of_the_future_or_before_the_one_before_it() -> None:
    clock = PlayerClock()
    edges = clock.edges([key(1000), key(900), key(None), key(1000, "key_up")], 50.0)
    assert times(edges) == [pytest.approx(50.0)] * 4
    assert [edge.down for edge in edges] == [True, True, True, False]


def test_a_clock_that_begins_anew_is_learnt_anew() -> None:
    clock = PlayerClock()
    clock.edges([key(900_000)], 50.0)
    assert times(clock.edges([key(10)], 60.0)) == [pytest.approx(60.0)]


def test_clocks_may_run_apart_slowly() -> None:
    clock = PlayerClock()
    for minute in range(120):
        (edge,) = clock.edges([key(60_000 * minute)], 60.003 * minute)
        assert edge.at_s == pytest.approx(60.003 * minute, abs=1e-6)


def test_the_mouse_counts_and_other_kinds_do_not() -> None:
    events = [
        {"kind": "pointer_move", "dx": 3.0, "dy": -1.0, "seq": 1, "t": None},
        {"kind": "wheel", "dx": 3.0, "dy": -1.0, "seq": 2, "t": None},
    ]
    assert PlayerClock().edges(events, 5.0) == [ControlEdge(5.0, look=(3.0, -1.0))]
