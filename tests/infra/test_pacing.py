from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass, field

import numpy as np
import pytest

from realtime_engine.core.clock import NS_PER_S
from realtime_engine.infra.frame import Frame
from realtime_engine.infra.pacing import PacedPlayer, Pacer
from realtime_engine.testing import ManualClock

from .pictures import make_chunk, make_frame

MS = 1_000_000


@dataclass
class Playback:
    """What came out of a simulated pacer."""

    pacer: Pacer
    shown: list[tuple[int, Frame]] = field(default_factory=list)
    ages_ms: list[float] = field(default_factory=list)

    def gaps_in_periods(self) -> np.ndarray:
        times = np.array([at for at, _ in self.shown])
        return np.diff(times) * self.pacer.fps / NS_PER_S

    def order(self) -> list[tuple[int, int, int]]:
        return [(frame.id.epoch, frame.id.seq, frame.id.frame_index) for _, frame in self.shown]


def play(arrivals: list[tuple[int, list[Frame]]], pacer: Pacer, clock: ManualClock, late_ns: int = 0) -> Playback:
    """Push each chunk at its moment, and ask for frames ``late_ns`` after they are due."""
    playback = Playback(pacer)
    waiting = sorted(arrivals, key=lambda arrival: arrival[0])[::-1]
    while waiting or pacer.next_due_ns is not None:
        due = pacer.next_due_ns
        wake = None if due is None else max(due + late_ns, clock.now_ns())
        if waiting and (wake is None or waiting[-1][0] <= wake):
            at, frames = waiting.pop()
            clock.advance_ns(max(at - clock.now_ns(), 0))
            pacer.push(frames)
            continue
        assert wake is not None
        clock.advance_ns(wake - clock.now_ns())
        frame = pacer.pop_due(clock.now_ns())
        assert frame is not None
        playback.shown.append((clock.now_ns(), frame))
        playback.ages_ms.append(pacer.statistics().age_ms)
        assert pacer.pop_due(clock.now_ns()) is None, "two frames at one moment"
    return playback


def chunks_at(
    times_s: list[float], frames: int = 1, first_seq: int = 0, epoch: int = 1
) -> list[tuple[int, list[Frame]]]:
    return [(round(at * NS_PER_S), make_chunk(first_seq + n, frames, epoch)) for n, at in enumerate(times_s)]


def simulate(
    times_s: list[float], *, fps: float = 30.0, frames: int = 1, budget_ms: float = 100.0, late_ns: int = 0
) -> Playback:
    clock = ManualClock(start_ns=0)
    playback = play(chunks_at(times_s, frames), Pacer(fps, budget_ms, clock), clock, late_ns)
    check_always(playback)
    return playback


def check_always(playback: Playback) -> None:
    """What holds whatever arrives: order, no burst, the media-age budget, and every frame accounted for."""
    assert playback.order() == sorted(playback.order())
    assert playback.gaps_in_periods().min(initial=9.0) >= 0.9 - 1e-6
    budget_ms = max(playback.pacer.budget_ms, 1000 / playback.pacer.fps)
    assert max(playback.ages_ms) <= budget_ms + 1e-3
    counts = playback.pacer.statistics()
    assert counts.queued == 0
    assert counts.pushed == counts.shown + counts.dropped + counts.discarded


def test_one_frame_chunks_at_30_fps_are_shown_at_once() -> None:
    playback = simulate([n / 30 for n in range(5 * 60 * 30)])
    assert max(playback.ages_ms) < 0.001
    assert np.allclose(playback.gaps_in_periods(), 1.0, atol=1e-6)
    assert playback.pacer.statistics().underruns == 0


def test_chunks_of_four_are_spread_over_their_period() -> None:
    playback = simulate([n / 7.5 for n in range(2 * 60 * 7)], frames=4)
    assert max(playback.ages_ms) < 0.001
    assert np.allclose(playback.gaps_in_periods(), 1.0, atol=1e-5)
    assert playback.pacer.statistics().underruns == 0


@pytest.mark.parametrize(("rate_hz", "frames"), [(30.0, 1), (7.5, 4)])
def test_jitter_is_smoothed_by_a_delay_no_larger_than_itself(rate_hz: float, frames: int) -> None:
    dice = random.Random(1)
    jitter_s = 0.025
    times = [n / rate_hz + dice.uniform(0, jitter_s) for n in range(int(120 * rate_hz))]
    playback = simulate(times, frames=frames)
    settled = slice(200, None)
    roughness_of_arrivals = np.mean(np.abs(np.diff(times) * rate_hz - 1))
    gaps = playback.gaps_in_periods()[settled]
    assert np.mean(np.abs(gaps - 1)) < 0.25 * roughness_of_arrivals
    assert np.max(playback.ages_ms[200:]) <= 1.5 * jitter_s * 1000
    assert np.mean(playback.ages_ms[200:]) <= jitter_s * 1000
    counts = playback.pacer.statistics()
    assert counts.dropped == 0
    assert counts.underruns <= 0.02 * counts.shown


def test_the_delay_ends_with_the_jitter() -> None:
    dice = random.Random(2)
    rough = [n / 30 + dice.uniform(0, 0.03) for n in range(900)]
    smooth = [n / 30 for n in range(900, 1800)]
    playback = simulate(rough + smooth)
    assert np.mean(playback.ages_ms[600:900]) > 5
    assert max(playback.ages_ms[1200:]) < 0.1


def test_a_late_frame_is_shown_at_once_and_the_delay_recovered() -> None:
    times = [n / 30 for n in range(120)]
    times[60] += 0.025
    playback = simulate(times)
    gaps = playback.gaps_in_periods()
    assert gaps[59] == pytest.approx(1.75, abs=1e-3)
    assert max(playback.ages_ms[72:]) < 0.001
    counts = playback.pacer.statistics()
    assert (counts.underruns, counts.dropped, counts.shown) == (1, 0, 120)


def test_frames_delayed_for_two_seconds_are_dropped_for_the_live_edge() -> None:
    times = [n / 30 for n in range(300)]
    held = [5.0 if 3.0 <= at < 5.0 else at for at in times]
    playback = simulate(held)
    counts = playback.pacer.statistics()
    assert counts.underruns == 1
    assert 55 <= counts.dropped <= 60
    after = [(at, frame.id.seq) for at, frame in playback.shown if at > 5.2 * NS_PER_S]
    assert all(abs(at - frame * NS_PER_S / 30) < 0.1 * NS_PER_S / 30 for at, frame in after[30:])


@pytest.mark.parametrize(("rate_hz", "frames"), [(30.0, 1), (7.5, 4)])
def test_an_engine_that_stalled_for_two_seconds_continues_without_drops(rate_hz: float, frames: int) -> None:
    times = [n / rate_hz + (2.0 if n > 50 else 0.0) for n in range(150)]
    playback = simulate(times, frames=frames)
    counts = playback.pacer.statistics()
    assert (counts.underruns, counts.dropped) == (1, 0)
    assert max(playback.ages_ms) < 0.1


def test_a_stall_is_not_taken_for_jitter() -> None:
    playback = simulate([n / 30 + (2.0 if n > 50 else 0.0) for n in range(60)])
    assert playback.pacer.statistics().jitter_ms < 0.1


def test_a_slightly_shifted_schedule_adds_no_delay() -> None:
    playback = simulate([n / 30 + (0.06 if n > 50 else 0.0) for n in range(150)])
    assert max(playback.ages_ms) < 0.1


def test_no_frame_is_shown_twice() -> None:
    clock = ManualClock()
    pacer = Pacer(30, clock=clock)
    pacer.push([make_frame(0)])
    assert pacer.pop_due(clock.now_ns()) is not None
    clock.advance(5)
    assert pacer.next_due_ns is None
    assert pacer.pop_due(clock.now_ns()) is None


@pytest.mark.parametrize(("rate_hz", "frames"), [(30.0, 1), (7.5, 4)])
def test_a_producer_five_percent_too_slow_is_shown_at_once(rate_hz: float, frames: int) -> None:
    playback = simulate([n / (0.95 * rate_hz) for n in range(int(60 * rate_hz))], frames=frames)
    counts = playback.pacer.statistics()
    assert (counts.underruns, counts.dropped) == (0, 0)
    assert max(playback.ages_ms) < 0.1


@pytest.mark.parametrize(("rate_hz", "frames"), [(30.0, 1), (7.5, 4)])
def test_a_producer_five_percent_too_fast_is_followed_without_delay(rate_hz: float, frames: int) -> None:
    playback = simulate([n / (1.05 * rate_hz) for n in range(int(60 * rate_hz))], frames=frames)
    counts = playback.pacer.statistics()
    assert (counts.underruns, counts.dropped) == (0, 0)
    assert max(playback.ages_ms) < 0.1 * 1000 / 30 * frames
    assert playback.gaps_in_periods().mean() == pytest.approx(1 / 1.05, abs=0.002)


def test_frames_of_a_producer_twice_too_fast_are_dropped_to_the_budget() -> None:
    playback = simulate([n / 60 for n in range(60 * 60)])
    counts = playback.pacer.statistics()
    assert 0.4 < counts.dropped / counts.pushed < 0.55
    assert 0.9 <= playback.gaps_in_periods().mean() <= 1.1


@pytest.mark.parametrize("seed", range(20))
def test_no_arrivals_break_order_budget_or_spacing(seed: int) -> None:
    dice = random.Random(seed)
    times, at = [], 0.0
    for _ in range(600):
        at += dice.choice([0.0, 0.0, dice.expovariate(15), 1 / 30, dice.uniform(0, 1)])
        times.append(at)
    simulate(times, frames=dice.choice([1, 2, 4, 9]), budget_ms=dice.choice([0, 20, 80, 300]))


def test_a_late_caller_gets_one_frame_and_no_old_one() -> None:
    clock = ManualClock()
    pacer = Pacer(30, 100, clock)
    for seq in range(8):
        pacer.push([make_frame(seq)])
        clock.advance(1 / 40)
    clock.advance(0.02)
    frame = pacer.pop_due(clock.now_ns())
    assert frame is not None
    assert pacer.statistics().age_ms <= 100
    assert pacer.statistics().dropped > 0
    assert pacer.pop_due(clock.now_ns()) is None


def test_a_timer_that_is_always_late_does_not_slow_the_cadence() -> None:
    playback = simulate([n / 7.5 for n in range(300)], frames=4, late_ns=MS)
    assert playback.gaps_in_periods().mean() == pytest.approx(1.0, abs=1e-3)
    assert max(playback.ages_ms) < 1.1


def test_reset_flushes_and_refuses_the_old_epoch() -> None:
    clock = ManualClock()
    pacer = Pacer(30, clock=clock)
    pacer.push(make_chunk(0, 4, epoch=1))
    assert pacer.pop_due(clock.now_ns()) is not None
    pacer.push(make_chunk(1, 4, epoch=2))
    pacer.push(make_chunk(9, 4, epoch=1))
    clock.advance(1 / 30)
    frame = pacer.pop_due(clock.now_ns())
    assert frame is not None
    assert (frame.id.epoch, frame.id.seq, frame.id.frame_index) == (2, 1, 0)
    counts = pacer.statistics()
    assert (counts.discarded, counts.queued, counts.underruns) == (7, 3, 0)


def test_begin_epoch_flushes_before_the_first_new_frame() -> None:
    clock = ManualClock()
    pacer = Pacer(30, clock=clock)
    pacer.push(make_chunk(0, 4, epoch=3))
    pacer.begin_epoch(4)
    pacer.begin_epoch(2)
    assert (pacer.epoch, pacer.next_due_ns) == (4, None)
    pacer.push(make_chunk(1, 1, epoch=3))
    assert pacer.next_due_ns is None


def test_reset_in_the_middle_of_a_stream() -> None:
    clock = ManualClock()
    before = chunks_at([n / 7.5 for n in range(75)], 4, epoch=1)
    after = chunks_at([10.31 + n / 7.5 for n in range(75)], 4, first_seq=75, epoch=2)
    playback = play(before + after, Pacer(30, clock=clock), clock)
    check_always(playback)
    assert playback.pacer.statistics().underruns == 0
    assert playback.order()[-300:] == [(2, seq, index) for seq in range(75, 150) for index in range(4)]


def test_a_pause_is_no_underrun() -> None:
    clock = ManualClock()
    pacer = Pacer(30, clock=clock)
    for seq in range(2):
        pacer.push([make_frame(seq)])
        assert pacer.pop_due(clock.now_ns()) is not None
        pacer.clear()
        clock.advance(60)
    assert pacer.statistics().underruns == 0


def test_there_is_credit_in_steady_state() -> None:
    clock = ManualClock()
    pacer = Pacer(30, 100, clock)
    for seq in range(200):
        pacer.push(make_chunk(seq, 4))
        for _ in range(4):
            assert pacer.wants_more(clock.now_ns())
            assert pacer.pop_due(clock.now_ns()) is not None
            clock.advance_ns(NS_PER_S // 30 + 1)


def test_credit_ends_while_chunks_accumulate() -> None:
    clock = ManualClock()
    pacer = Pacer(30, 100, clock)
    for seq in range(2):
        pacer.push([make_frame(seq)])
    assert not pacer.wants_more(clock.now_ns())
    assert pacer.pop_due(clock.now_ns()) is not None
    clock.advance(0.02)
    assert pacer.wants_more(clock.now_ns())
    assert pacer.statistics().dropped == 0


@pytest.mark.parametrize(("speed", "frames"), [(1.5, 1), (3.0, 1), (30.0, 1), (1.5, 2), (1.3, 4)])
def test_an_engine_that_observes_the_credit_loses_no_frame(speed: float, frames: int) -> None:
    clock = ManualClock()
    pacer = Pacer(30, 100, clock)
    made, milliseconds = 0, 60_000
    next_ns = 0.0
    for _ in range(milliseconds):
        now = clock.now_ns()
        if now >= next_ns and pacer.wants_more(now):
            pacer.push(make_chunk(made, frames))
            made += 1
            next_ns = now + frames * NS_PER_S / 30 / speed
        pacer.pop_due(now)
        clock.advance_ns(MS)
    counts = pacer.statistics()
    assert counts.dropped == 0
    assert counts.underruns == 0
    assert counts.shown >= 0.95 * 30 * milliseconds / 1000


def test_an_empty_chunk_has_no_effect() -> None:
    pacer = Pacer(30, 80)
    pacer.push([])
    assert pacer.next_due_ns is None
    assert pacer.statistics().pushed == 0
    assert repr(pacer) == "Pacer(fps=30, budget_ms=80)"


@pytest.mark.parametrize(
    ("arguments", "named"),
    [({"fps": 0}, "fps"), ({"fps": float("nan")}, "fps"), ({"fps": 30, "budget_ms": -1}, "budget_ms")],
)
def test_invalid_arguments_are_refused(arguments: dict[str, float], named: str) -> None:
    with pytest.raises(ValueError, match=named):
        Pacer(**arguments)


# -- the player


class Shown:
    """Collects published frames; a test waits for a number of them."""

    def __init__(self) -> None:
        self.frames: list[Frame] = []
        self._changed = asyncio.Event()

    def publish(self, frame: Frame) -> None:
        self.frames.append(frame)
        self._changed.set()

    async def wait_for(self, count: int) -> None:
        while len(self.frames) < count:
            self._changed.clear()
            await asyncio.wait_for(self._changed.wait(), 10)


async def test_player_publishes_what_is_pushed_before_and_while_it_runs() -> None:
    shown = Shown()
    player = PacedPlayer(Pacer(500), shown.publish)
    player.push(make_chunk(0, 3))
    running = asyncio.create_task(player.run())
    await shown.wait_for(3)
    player.push(make_chunk(1, 2))
    await shown.wait_for(5)
    player.close()
    await running
    assert [frame.id.seq for frame in shown.frames] == [0, 0, 0, 1, 1]
    assert player.statistics().shown == 5


async def test_player_wakes_for_a_push_from_another_thread() -> None:
    shown = Shown()
    player = PacedPlayer(Pacer(1000), shown.publish)
    asyncio.get_running_loop().set_debug(True)  # calls from a wrong thread raise
    running = asyncio.create_task(player.run())
    await asyncio.sleep(0)
    for seq in range(3):
        await asyncio.to_thread(player.push, [make_frame(seq)])
    await shown.wait_for(3)
    player.close()
    await running


async def test_player_does_not_publish_before_the_clock_says_so() -> None:
    clock = ManualClock()
    shown = Shown()
    player = PacedPlayer(Pacer(1000, clock=clock), shown.publish)
    running = asyncio.create_task(player.run())
    player.push(make_chunk(0, 2))
    await shown.wait_for(1)
    for _ in range(5):
        await asyncio.sleep(0.001)  # its timer fires now, while the clock stands still
    assert len(shown.frames) == 1
    clock.advance(0.001)
    await shown.wait_for(2)
    player.close()
    await running


async def test_player_closes_while_it_sleeps_and_from_another_thread() -> None:
    player = PacedPlayer(Pacer(0.01), lambda frame: None)
    running = asyncio.create_task(player.run())
    player.push(make_chunk(0, 2))
    await asyncio.sleep(0)
    asyncio.get_running_loop().set_debug(True)
    await asyncio.to_thread(player.close)
    await asyncio.wait_for(running, 10)


async def test_player_flushes_on_a_new_epoch() -> None:
    shown = Shown()
    player = PacedPlayer(Pacer(0.01), shown.publish)
    running = asyncio.create_task(player.run())
    player.push(make_chunk(0, 2, epoch=1))
    await shown.wait_for(1)
    player.begin_epoch(2)
    assert player.statistics().discarded == 1
    assert player.wants_more()
    player.clear()
    player.close()
    await running


async def test_exceptions_of_publish_propagate_from_the_player() -> None:
    def refuse(frame: Frame) -> None:
        raise RuntimeError("no room")

    player = PacedPlayer(Pacer(30), refuse)
    player.push([make_frame(0)])
    with pytest.raises(RuntimeError, match="no room"):
        await player.run()
