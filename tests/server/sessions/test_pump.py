from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import Any

import numpy as np
import pytest

from realtime_engine import Attached, Chunk, Detached, Failed, Finished, Outbox, ResetDone, SessionEvent
from realtime_engine.infra.conversion import Converter
from realtime_engine.infra.publisher import FramePublisher
from realtime_engine.server.sessions.pump import Pump, PumpHooks

from ..support import until


class Bench:
    """A pump between an outbox and a publisher."""

    def __init__(
        self, layout: str, value_range: str, pool: ThreadPoolExecutor, chunk_shape: tuple[int, ...] = ()
    ) -> None:
        self.outbox = Outbox()
        self.publisher = FramePublisher()
        self.viewer = self.publisher.subscribe()
        self.events: list[SessionEvent] = []
        self.on_event: Callable[[SessionEvent], object] = lambda event: None
        self.credits: list[bool] = []
        self.pump = Pump(
            self.outbox.session("s"),
            self.publisher,
            Converter(layout, value_range),
            pool,
            fps=1000.0,
            budget_ms=100,
            hooks=PumpHooks(on_event=self._on_event, on_credit=self.credits.append),
            chunk_shape=chunk_shape,
        )

    def _on_event(self, event: SessionEvent) -> bool:
        self.on_event(event)
        self.events.append(event)
        return not isinstance(event, Detached)

    def chunk(self, seq: int, output: Any, epoch: int = 1, action: int | None = None) -> None:
        self.outbox.put_nowait(Chunk("s", output, seq=seq, epoch=epoch, action_id=action))


@asynccontextmanager
async def bench(
    layout: str = "thwc", value_range: str = "uint8", chunk_shape: tuple[int, ...] = ()
) -> AsyncIterator[Bench]:
    with ThreadPoolExecutor(1) as pool:
        one = Bench(layout, value_range, pool, chunk_shape)
        running = asyncio.create_task(one.pump.run())
        yield one
        one.outbox.put_nowait(Detached("s", epoch=1))
        await running


def pixels(value: int, frames: int = 1) -> np.ndarray:
    return np.full((frames, 4, 4, 3), value, np.uint8)


async def test_frames_carry_the_identity_of_their_chunk() -> None:
    async with bench() as one:
        one.chunk(7, pixels(9), action=3)
        frame = await one.viewer.next()
    assert frame.id[:5] == ("s", 1, 7, 0, 3)
    assert frame.pixels.max() == 9


async def test_what_costs_something_is_converted_on_a_thread() -> None:
    async with bench("tchw", "zero_one") as one:
        one.chunk(0, np.ones((1, 3, 4, 4), np.float32))
        assert (await one.viewer.next()).pixels.min() == 255


async def test_no_frame_of_before_a_reset_is_shown_after_it() -> None:
    async with bench() as one:
        one.outbox.put_many([Attached("s", epoch=1), Chunk("s", pixels(1, 50), seq=0, epoch=1)])
        await one.viewer.next()
        one.outbox.put_many([ResetDone("s", epoch=2), Chunk("s", pixels(2), seq=1, epoch=2)])
        while (frame := await one.viewer.next()).id.epoch < 2:
            pass
        assert frame.pixels.max() == 2 and one.publisher.epoch == 2
        assert one.publisher.statistics().published < 51, "queued frames of the old epoch are discarded"
    assert [type(event) for event in one.events] == [Attached, ResetDone, Detached]


async def test_an_output_that_is_no_picture_is_reported_once_and_ends_nothing() -> None:
    async with bench() as one:
        for seq in range(3):
            one.chunk(seq, "no picture")
        one.chunk(3, pixels(5))
        assert (await one.viewer.next()).id.seq == 3
    failures = [event for event in one.events if isinstance(event, Failed)]
    assert len(failures) == 1 and "does not fit" in failures[0].error and not failures[0].fatal


async def test_an_output_of_another_shape_than_declared_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    async with bench(chunk_shape=(2, 4, 4, 3)) as one:
        one.chunk(0, pixels(5, frames=2))
        assert (await one.viewer.next()).id.seq == 0
        for seq in (1, 2):
            one.chunk(seq, pixels(5))
        while (await one.viewer.next()).id.seq < 2:
            pass
    warnings = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    expected = "session s: an output has the shape (1, 4, 4, 3); manifest() declares chunk_shape=(2, 4, 4, 3)"
    assert warnings == [expected]


async def test_an_engine_that_runs_ahead_is_held_until_playback_wants_more() -> None:
    async with bench() as one:
        for seq in range(300):  # 300 ms of media at once
            one.chunk(seq, pixels(seq % 256))
        while True not in one.credits:
            await one.viewer.next()
    assert one.credits[:1] == [False]


@pytest.mark.parametrize("close", [True, False])
async def test_it_ends_with_the_session_or_with_the_engine(close: bool) -> None:
    with ThreadPoolExecutor(1) as pool:
        one = Bench("thwc", "uint8", pool)
        running = asyncio.create_task(one.pump.run())
        one.outbox.close() if close else one.outbox.put_nowait(Detached("s"))
        assert await running is not close
        with one.outbox.session("s"):  # the stream was released
            pass


async def test_finished_is_reported_after_the_last_frame_of_the_rollout() -> None:
    async with bench() as one:
        newest: list[int] = []
        one.on_event = lambda event: newest.append(one.publisher.latest.id.frame_index)  # type: ignore[union-attr]
        one.outbox.put_many([Chunk("s", pixels(1, 30), seq=0, epoch=1), Finished("s", epoch=1)])
        await until(lambda: one.events)
        assert one.events == [Finished("s", epoch=1)] and newest == [29]


async def test_finished_without_waiting_frames_is_reported_at_once() -> None:
    async with bench() as one:
        one.outbox.put_nowait(Finished("s", epoch=1))
        await until(lambda: one.events)
        assert one.events == [Finished("s", epoch=1)]


async def test_a_reset_supersedes_finished() -> None:
    async with bench() as one:
        one.outbox.put_many(
            [Chunk("s", pixels(1, 50), seq=0, epoch=1), Finished("s", epoch=1), ResetDone("s", epoch=2)]
        )
        one.chunk(1, pixels(2), epoch=2)
        while (await one.viewer.next()).id.epoch < 2:
            pass
    assert one.events == [ResetDone("s", epoch=2), Detached("s", epoch=1)]
