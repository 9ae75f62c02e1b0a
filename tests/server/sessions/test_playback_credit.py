import random

import numpy as np
import pytest

from realtime_engine.core.clock import NS_PER_S
from realtime_engine.infra.frame import Frame, FrameId
from realtime_engine.infra.pacing import Pacer
from realtime_engine.server.sessions.playback_credit import PlaybackCredit
from realtime_engine.testing import ManualClock

FPS, BUDGET_MS = 30.0, 100.0
PIXELS = np.zeros((2, 2, 3), np.uint8)


class Playback:
    """A pacer and its playback credit, as in the pump, under a manual clock."""

    def __init__(self) -> None:
        self.clock = ManualClock(10 * NS_PER_S)
        self.pacer = Pacer(FPS, BUDGET_MS, self.clock)
        self.credit = PlaybackCredit(FPS, BUDGET_MS)
        self.chunks = self.holds = 0

    def arrive(self, frames: int = 1) -> None:
        identities = (FrameId("s", 1, self.chunks, index) for index in range(frames))
        self.pacer.push([Frame(PIXELS, identity) for identity in identities])
        self.chunks += 1
        was_held = self.credit.exhausted
        now = self.clock.now_ns()
        self.credit.on_chunk(frames, now, wants_more=self.pacer.wants_more(now))
        self.holds += self.credit.exhausted and not was_held

    def pass_ms(self, milliseconds: int) -> None:
        for _ in range(milliseconds):
            self.clock.advance(0.001)
            now = self.clock.now_ns()
            while self.pacer.pop_due(now) is not None:
                self.credit.on_published(wants_more=self.pacer.wants_more(now))


@pytest.mark.parametrize("frames", [1, 4, 16])
def test_an_engine_in_step_is_never_held_however_late_some_of_its_chunks_are(frames: int) -> None:
    playback, rng = Playback(), random.Random(frames)
    period, free_at, at = frames * 1000 / FPS, 0.0, 0.0
    for deadline in range(300):
        if free_at > deadline * period:
            continue  # the serve loop skips deadlines that a slow step has missed
        took = 5 + rng.choice((0, 0, 0, 0, 0.4, 0.9, 2.5)) * period
        free_at = deadline * period + took
        playback.pass_ms(max(round(free_at - at), 0))
        at = max(free_at, at)
        playback.arrive(frames)
    assert playback.chunks > 150 and playback.holds == 0


@pytest.mark.parametrize(("frames", "lost"), [(1, 0), (4, 12)])
def test_an_engine_that_runs_flat_out_is_held_to_playback(frames: int, lost: int) -> None:
    playback = Playback()
    for _ in range(2000):
        if not playback.credit.exhausted:
            playback.arrive(frames)
        playback.pass_ms(5)
    counted = playback.pacer.statistics()
    assert playback.holds > 10
    assert counted.dropped <= lost and counted.underruns == 0
    assert 10 * FPS <= counted.shown <= 1.12 * 10 * FPS  # the pacer catches up by a tenth at most


def test_a_clear_forgets_the_surplus() -> None:
    playback = Playback()
    while not playback.credit.exhausted:
        playback.arrive()
    playback.pacer.clear()
    playback.credit.clear()
    assert not playback.credit.exhausted
    playback.arrive()
    assert not playback.credit.exhausted
