"""What a stage may take next, against a plain model of it."""

from __future__ import annotations

import random

from realtime_engine.core.streaming.progress import merged
from realtime_engine.core.streaming.specs import StreamingEdgeSpec, StreamingPipelineSpec

from .pipelines import Bench, chain, diamond, unordered


def test_a_strict_stage_waits_for_the_sequence_that_is_next() -> None:
    progress = Bench(diamond(4)).session().stages[2]
    assert not progress.arrive("l", 0, 0)
    assert not progress.arrive("l", 1, 0) and progress.arrive("r", 1, 0)
    assert progress.next_ready() is None
    assert progress.arrive("r", 0, 0)
    assert [progress.take_next(), progress.take_next()] == [0, 1] and progress.base == 2
    assert Bench(chain()).session().stages[0].next_ready() is None


def test_an_unordered_stage_takes_the_lowest_that_is_ready() -> None:
    rng = random.Random(3)
    spec = StreamingPipelineSpec((unordered("a", "x", "y", 4),), (StreamingEdgeSpec("x", "a"),), frozenset({"y"}))
    progress = Bench(spec).session().stages[0]
    coming, ready, taken = list(range(60)), set(), set()
    rng.shuffle(coming)
    while coming or ready:
        if coming and rng.random() < 0.5:
            sequence_id = coming.pop()
            assert progress.arrive("x", sequence_id, 0)
            ready.add(sequence_id)
        elif ready:
            assert progress.next_ready() == min(ready)
            taken.add(progress.take_next())
            ready.remove(min(ready))
        assert progress.base == next(n for n in range(61) if n not in taken)
        assert set(progress.arrived) == ready
    assert progress.ahead == set()


def test_the_oldest_version_of_each_control_wins() -> None:
    left, right = {"steer": (3, 1.0), "zoom": (1, 0.5)}, {"steer": (2, 0.9)}
    assert merged([left, None, right], {"zoom": (4, 2.0), "gas": (0, 0)}) == {
        "steer": (2, 0.9),
        "zoom": (1, 0.5),
        "gas": (0, 0),
    }
    assert merged([None], {}) == {}
