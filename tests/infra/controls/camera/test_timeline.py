from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from realtime_engine.infra.controls.camera import ControlEdge, ControlTimeline, PlayerClock, Span

EDGES = st.lists(
    st.builds(
        ControlEdge,
        st.integers(-40, 100).map(lambda n: n / 32),
        st.sampled_from(["KeyW", "KeyA", None]),
        st.booleans(),
        st.just((1.0, 2.0)),
    ),
    max_size=12,
)


def press(at_s: float, code: str = "KeyW") -> ControlEdge:
    return ControlEdge(at_s, code, True)


def release(at_s: float, code: str = "KeyW") -> ControlEdge:
    return ControlEdge(at_s, code, False)


def test_a_key_is_held_from_its_press_to_its_release() -> None:
    spans = ControlTimeline().chunk([press(10.25), release(10.75)], 10.0, 1.0)
    assert spans == [Span(0, 0.25, frozenset()), Span(0.25, 0.75, frozenset({"KeyW"})), Span(0.75, 1.0, frozenset())]


def test_a_held_key_goes_on_in_the_next_chunk() -> None:
    timeline = ControlTimeline()
    timeline.chunk([press(0.5)], 0.0, 1.0)
    assert timeline.chunk([], 1.0, 1.0) == [Span(0, 1.0, frozenset({"KeyW"}))]
    assert timeline.held == {"KeyW"}


def test_late_edges_change_what_is_carried_and_no_more() -> None:
    timeline = ControlTimeline()
    spans = timeline.chunk([press(-0.4), release(-0.2), press(-0.1, "KeyA")], 0.0, 1.0)
    assert spans == [Span(0, 1.0, frozenset({"KeyA"}))]


def test_edges_of_the_future_wait() -> None:
    timeline = ControlTimeline()
    assert timeline.chunk([press(1.0), release(1.5)], 0.0, 1.0) == [Span(0, 1.0, frozenset())]
    assert timeline.chunk([], 1.0, 1.0) == [Span(0, 0.5, frozenset({"KeyW"})), Span(0.5, 1.0, frozenset())]


def test_the_mouse_moves_at_its_moment_and_moves_of_one_moment_add_up() -> None:
    edges = [ControlEdge(0.5, look=(3, 4)), ControlEdge(0.5, look=(1, -1))]
    assert ControlTimeline().chunk(edges, 0.0, 1.0) == [
        Span(0, 0.5, frozenset()),
        Span(0.5, 1.0, frozenset(), (4, 3)),
    ]


def test_what_is_held_can_be_set_right() -> None:
    timeline = ControlTimeline()
    timeline.chunk([press(0.0)], 0.0, 1.0)
    timeline.hold(["KeyA"])
    assert timeline.chunk([], 1.0, 1.0) == [Span(0, 1.0, frozenset({"KeyA"}))]


@pytest.mark.parametrize("seconds", [0.0, -1.0, float("nan")])
def test_a_chunk_of_no_time_is_refused(seconds: float) -> None:
    with pytest.raises(ValueError, match="more than 0 seconds"):
        ControlTimeline().chunk([], 0.0, seconds)


@given(EDGES)
def test_at_each_moment_that_is_held_which_the_edges_say(edges: list[ControlEdge]) -> None:
    spans = ControlTimeline().chunk(edges, 0.0, 3.0)
    assert spans[0].begin_s == 0 and spans[-1].end_s == 3.0
    assert all(before.end_s == after.begin_s for before, after in zip(spans, spans[1:], strict=False))
    ordered = sorted(edges, key=lambda edge: edge.at_s)
    for span in spans:
        middle = (span.begin_s + span.end_s) / 2
        held = {
            code
            for code in ("KeyW", "KeyA")
            if ([edge.down for edge in ordered if edge.code == code and edge.at_s <= middle] or [False])[-1]
        }
        assert span.held == held
    looks = [edge for edge in edges if edge.at_s < 3.0]
    assert sum(span.look[0] for span in spans) == len(looks)


@given(EDGES)
def test_two_chunks_hold_what_one_chunk_of_both_holds(edges: list[ControlEdge]) -> None:
    whole, halves = ControlTimeline(), ControlTimeline()
    once = whole.chunk(edges, 0.0, 3.0)
    first = halves.chunk(edges, 0.0, 1.0)
    second = [span._replace(begin_s=span.begin_s + 1, end_s=span.end_s + 1) for span in halves.chunk([], 1.0, 2.0)]
    assert halves.held == whole.held
    for span in once:
        middle = (span.begin_s + span.end_s) / 2
        assert next(part.held for part in first + second if part.begin_s <= middle < part.end_s) == span.held


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
