from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from realtime_engine import (
    Action,
    Attach,
    Attached,
    Chunk,
    ComposedEngine,
    Detach,
    Detached,
    Inbox,
    Outbox,
    SessionInit,
)
from realtime_engine.core.errors import StepFailure
from realtime_engine.core.serve import run_engine
from realtime_engine.core.streaming import StreamingEngine
from realtime_engine.integrations.maze.model import MazeModel
from realtime_engine.integrations.maze_stages.demo import Options, demo
from realtime_engine.integrations.maze_stages.pipeline import build_engine
from realtime_engine.integrations.registry import load_demo
from realtime_engine.testing import EngineCase, check_engine

SIZE = {"width": 96, "height": 64}
AT_ONCE = {"encode_ms": 0.0, "denoise_ms": 0.0, "decode_ms": 0.0}
TIMEOUT_S = 60.0


def conditioning(index: int, step: int) -> dict[str, Any]:
    events = [{"kind": "pointer_move", "dx": 9 * index - 4, "dy": step}, {"kind": "key", "code": "KeyW"}]
    return {"forward": 1.0, "strafe": 0.5 * (index - 1), "turn": (step % 5 - 2) / 2, "run": step > 2, "events": events}


class Makers:
    """Makes engines and closes them."""

    def __init__(self) -> None:
        self._made: list[StreamingEngine] = []

    def __call__(self, sessions: int = 2, **options: Any) -> StreamingEngine:
        self._made.append(build_engine(sessions, **{**SIZE, **AT_ONCE, **options}))
        return self._made[-1]

    def close(self) -> None:
        for engine in self._made:
            engine.close()


@pytest.fixture
def make() -> Iterator[Makers]:
    makers = Makers()
    yield makers
    makers.close()


def test_it_is_a_built_in_demo_with_flags() -> None:
    assert load_demo("stages") is demo
    with pytest.raises(ValidationError):
        Options(denoise_ms=-1)
    engine = demo.build_engine(Options(max_sessions=3, width=64, height=32, fps=24.0, frames_per_chunk=4))
    assert isinstance(engine, StreamingEngine)
    manifest = engine.manifest()
    assert (manifest.max_sessions, manifest.chunk_shape, manifest.rate_hz) == (3, (4, 32, 64, 3), 6.0)
    engine.close()


def test_the_stages_keep_the_contract(make: Makers) -> None:
    check_engine(EngineCase(lambda sessions: make(sessions, frames_per_chunk=1), conditioning=conditioning))


@pytest.mark.parametrize("frames", [1, 2])
def test_what_the_stages_make_is_what_the_maze_makes(make: Makers, frames: int) -> None:
    staged = make(2, frames_per_chunk=frames)
    whole = ComposedEngine(MazeModel(2, **SIZE, frames_per_chunk=frames), pipeline=False)
    for engine in (staged, whole):
        for index, name in enumerate("ab"):
            engine.attach(SessionInit(name, {"seed": index + 3, "prompt": "lava"}))
    for step in range(6):
        due = {name: {**conditioning(index, step), "prompt": "lava"} for index, name in enumerate("ab")}
        for got, wanted in zip(staged.step(due), whole.step(due), strict=True):
            assert got.session_id == wanted.session_id
            assert np.array_equal(got.output, wanted.output)


def test_a_new_theme_shows_in_the_same_chunk(make: Makers) -> None:
    pictures = []
    for prompt in ("lava", "ice"):
        engine = make(1)
        engine.attach(SessionInit("a", {"seed": 1, "prompt": "lava"}))
        engine.step({"a": {"prompt": "lava"}})
        pictures.append(engine.step({"a": {"prompt": prompt}})[0].output.astype(int))
    assert np.abs(pictures[0] - pictures[1]).mean() > 10


@pytest.mark.parametrize(
    ("context", "given", "text"),
    [
        ({"seed": -1}, {}, "seed must be an integer of 0 or more, got -1"),
        ({}, {"prompt": 7}, "prompt must be a string, got 7"),
        ({}, {"forward": "fast"}, "forward must be a number, got 'fast'"),
    ],
)
def test_what_is_wrong_with_one_is_told_of_that_one(
    make: Makers, context: dict[str, Any], given: dict[str, Any], text: str
) -> None:
    engine = make(2)
    engine.attach(SessionInit("a", context))
    engine.attach(SessionInit("b", {"seed": 1}))
    with pytest.raises(StepFailure) as caught:
        engine.step({"a": given, "b": {"forward": 1.0}})
    assert str(caught.value.failures["a"]) == text
    assert [result.session_id for result in caught.value.results] == ["b"]


async def test_people_come_and_go_while_it_is_served(make: Makers) -> None:
    engine = make(1, fps=600.0)
    inbox, outbox, stop = Inbox(), Outbox(), asyncio.Event()
    serving = asyncio.create_task(run_engine(engine, inbox, outbox, stop=stop))
    for life in range(5):  # each gets the one row of the renderer
        with outbox.session(f"visitor-{life}") as reader:
            inbox.put_nowait(Attach(f"visitor-{life}", {"seed": life % 2}))
            inbox.put_nowait(Action(f"visitor-{life}", {"forward": 1.0}, action_id="walk"))
            assert isinstance(await asyncio.wait_for(reader.get(), TIMEOUT_S), Attached)
            chunks = []
            while not chunks or chunks[-1].action_id != "walk":
                item = await asyncio.wait_for(reader.get(), TIMEOUT_S)
                assert isinstance(item, Chunk)
                chunks.append(item)
            assert {chunk.output.shape for chunk in chunks} == {(2, 64, 96, 3)}
            inbox.put_nowait(Detach(f"visitor-{life}"))
            while not isinstance(item, Detached):
                item = await asyncio.wait_for(reader.get(), TIMEOUT_S)
    stop.set()
    await asyncio.wait_for(serving, TIMEOUT_S)
