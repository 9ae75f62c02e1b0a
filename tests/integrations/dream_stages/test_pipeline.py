from __future__ import annotations

import asyncio
import random
from typing import Any

import numpy as np
import pytest

from realtime_engine.core.composed import ComposedEngine
from realtime_engine.core.contract import SessionInit
from realtime_engine.core.errors import StepFailure
from realtime_engine.core.streaming import (
    ChunkRequest,
    StreamingEngine,
    StreamingSessionCloseReason,
    StreamingSessionContext,
)
from realtime_engine.core.streaming.rollout import NO_ACTION, SessionInput
from realtime_engine.integrations.dream_stages.pipeline import Rows, split_controls
from realtime_engine.testing import EngineCase, check_engine
from realtime_engine.testing.conformance import CHECKS

from .conftest import Dreams
from .players import Frames, Table, context_of, differences, name_of, told

TIMEOUT_S = 60.0


def people_come_and_go(table: Table, seed: int) -> Table:
    """Twenty rounds of a party of five at a table of three; not everybody is due in each round."""
    chance = random.Random(seed)
    for number in range(20):
        player = chance.randrange(5)
        if player in table.here and chance.random() < 0.7:
            table.leave(player)
        elif player not in table.here and len(table.here) < 3:
            table.enter(player)
        table.make([player for player in table.here if number % 4 or chance.random() < 0.7])
    for player in table.here:
        table.leave(player)
    return table


@pytest.mark.parametrize("seed", [1, 2])
def test_both_engines_dream_the_same_frames(dreams: Dreams, seed: int) -> None:
    staged = people_come_and_go(Table(dreams.staged()), seed)
    whole = people_come_and_go(Table(ComposedEngine(dreams.model(), pipeline=False)), seed)
    assert differences(staged.chunks, whole.chunks) == []
    lengths = sorted(len(seen) for seen in staged.chunks.values())
    assert len(lengths) > 5 and lengths[-1] > 8  # long enough for another theme
    other = people_come_and_go(Table(dreams.staged()), seed)
    assert differences(staged.chunks, other.chunks) == []


def test_what_a_player_does_shows(dreams: Dreams) -> None:
    """So that equal frames mean something."""
    plain = {"forward": 1.0}
    cases: list[dict[str, Any]] = [
        plain,
        {"turn": 1.0},
        {**plain, "astray": 1.0},
        {**plain, "theme": "frost"},
        {**plain, "events": [{"kind": "pointer_move", "dx": 400.0}]},
    ]
    pictures = []
    for given in cases:
        engine = dreams.staged()
        engine.attach(SessionInit("a", {"seed": 3}))
        for _ in range(3):
            (result,) = engine.step({"a": given})
        pictures.append(result.output)
    for index, picture in enumerate(pictures):
        assert all(not np.array_equal(picture, other) for other in pictures[:index]), cases[index]


async def dream_at_once(engine: StreamingEngine, players: dict[int, int], cancelled: int | None = None) -> Any:
    """So many chunks of each, as fast as the stages take them; each is told the player's first theme and motion."""

    async def play(player: int, count: int) -> list[Frames]:
        name, pipeline = name_of(player), engine.pipeline
        pipeline.create_session(name, final_sequence_id=count - 1)
        motion = {key: value for key, value in told(player, 3).items() if key != "events"}
        for control, value in split_controls(motion).items():
            pipeline.set_control(name, control, value)
        reading = asyncio.create_task(read(name))
        for number in range(count):
            hands = SessionInput(context_of(player))
            hands.apply({}, told(player, number)["events"], NO_ACTION)
            request = ChunkRequest(name, number, hands)
            await pipeline.push_inputs(name, number, {"request": request})
            if player == cancelled and number == count // 2:
                await asyncio.to_thread(pipeline.cancel_session, name)
                break
        seen = await reading
        await asyncio.to_thread(pipeline.close_session, name)
        return seen

    async def read(name: str) -> list[Frames]:
        return [output.value async for output in engine.pipeline.outputs(name)]

    seen = await asyncio.wait_for(asyncio.gather(*(play(*item) for item in players.items())), TIMEOUT_S)
    return dict(zip(players, seen, strict=True))


def dream_in_steps(engine: ComposedEngine, players: dict[int, int]) -> dict[int, list[Frames]]:
    """The same, one chunk after the other."""
    chunks: dict[int, list[Frames]] = {player: [] for player in players}
    for player, count in players.items():
        engine.attach(SessionInit(name_of(player), context_of(player)))
        for number in range(count):
            given = {**told(player, 3), "events": told(player, number)["events"]}
            while not (results := engine.step({name_of(player): given})):
                given = {**given, "events": []}
            chunks[player].append(results[0].output)
        engine.detach(name_of(player))
    return chunks


async def test_chunks_that_overtake_each_other_in_the_stages_are_the_same_frames(dreams: Dreams) -> None:
    players = {1: 9, 2: 6, 3: 12}
    staged = await dream_at_once(dreams.staged(), players)
    whole = dream_in_steps(ComposedEngine(dreams.model(), pipeline=False), players)
    assert differences(staged, whole) == []


async def test_who_is_cancelled_changes_nobody_elses_frames(dreams: Dreams) -> None:
    engine = dreams.staged()
    first, then = {1: 8, 2: 20, 3: 8}, {1: 5, 2: 5, 3: 5}
    staged = await dream_at_once(engine, first, cancelled=2)
    whole = dream_in_steps(ComposedEngine(dreams.model(), pipeline=False), first)
    assert len(staged[2]) <= 11
    assert differences(staged, {**whole, 2: whole[2][: len(staged[2])]}) == []
    again = await dream_at_once(engine, then)  # in the rows that it and the others had
    assert differences(again, {player: seen[:5] for player, seen in whole.items()}) == []


@pytest.mark.parametrize(
    ("context", "given", "text"),
    [
        ({"seed": -1}, {}, "seed must be an integer from 0 to 2**63 - 1, got -1"),
        ({"theme": "blue"}, {}, "theme must be one of day, ember, frost, got 'blue'"),
        ({}, {"theme": 7}, "theme must be one of day, ember, frost, got 7"),
        ({}, {"astray": 2}, "astray must be a number from 0 to 1, got 2"),
        ({}, {"forward": "fast"}, "forward must be a number, got 'fast'"),
    ],
)
def test_a_session_that_fails_changes_nobody_elses_frames(
    dreams: Dreams, context: dict[str, Any], given: dict[str, Any], text: str
) -> None:
    engine, calm = dreams.staged(), ComposedEngine(dreams.model(), pipeline=False)
    frames: dict[str, list[Frames]] = {"staged": [], "calm": []}
    for one in (engine, calm):
        one.attach(SessionInit("b", {"seed": 1}))
    for step in range(4):
        wanted = told(1, step)
        while not (results := calm.step({"b": wanted})):
            wanted = {**wanted, "events": []}
        frames["calm"].append(results[0].output)
        if step == 1:
            engine.attach(SessionInit("a", context))
            with pytest.raises(StepFailure) as caught:
                engine.step({"a": given, "b": told(1, step)})
            assert str(caught.value.failures["a"]) == text
            results = caught.value.results
            engine.detach("a")
        else:
            results = engine.step({"b": told(1, step)})
        assert [result.session_id for result in results] == ["b"]
        frames["staged"].append(results[0].output)
    assert differences({"b": frames["staged"]}, {"b": frames["calm"]}) == []


def conditioning(index: int, step: int) -> dict[str, Any]:
    return {"forward": 1.0, "turn": (index + step) % 3 - 1.0, "astray": 0.5, "events": told(index, step)["events"]}


def near(left: Frames, right: Frames) -> bool:
    return int(np.abs(left.astype(int) - right).max()) <= 2


def test_the_stages_keep_the_contract(dreams: Dreams) -> None:
    case = EngineCase(
        lambda sessions: dreams.staged(sessions, frames=1), conditioning=conditioning, heavy=("theme", "day", "frost")
    )
    check_engine(
        EngineCase(case.make_engine, conditioning=conditioning, heavy=case.heavy, skip=frozenset({"replica_parity"}))
    )
    CHECKS["replica_parity"](EngineCase(case.make_engine, conditioning=conditioning, same=near))


def test_rows_that_are_due_alone_give_nearly_the_same(dreams: Dreams) -> None:
    """Batches of another size may round in another way."""
    occupied = people_come_and_go(Table(dreams.staged(rows="occupied")), 1)
    whole = people_come_and_go(Table(ComposedEngine(dreams.model(), pipeline=False)), 1)
    for key, seen in occupied.chunks.items():
        assert all(near(left, right) for left, right in zip(seen, whole.chunks[key], strict=True))


def release(rows: Rows, session_id: str) -> None:
    rows.release(StreamingSessionContext(session_id, 1), StreamingSessionCloseReason.CLOSED)


def test_a_session_keeps_its_row_until_it_leaves_and_the_lowest_free_one_is_next() -> None:
    rows = Rows(3)
    assert [rows.of(name) for name in "abcab"] == [0, 1, 2, 0, 1]
    release(rows, "c")
    release(rows, "a")
    assert [rows.of(name) for name in "bde"] == [1, 0, 2]


def test_who_never_came_may_leave() -> None:
    rows = Rows(1)
    release(rows, "a")
    assert rows.of("b") == 0
