from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from realtime_engine.infra.encoding.base import Codec
from realtime_engine.infra.webrtc.send_queue import EncodedFrame, VideoViewer
from realtime_engine.infra.webrtc.tiers import Tier

from .bench import Bench
from .support import until

RATE = 2_000_000


class Viewer:
    """Takes what there is to take, and reports."""

    def __init__(self, viewer: VideoViewer) -> None:
        self.viewer = viewer
        self.got: list[EncodedFrame] = []

    async def take(self) -> EncodedFrame:
        self.got.append(await self.viewer.next())
        return self.got[-1]

    def choke(self) -> None:
        """Report a loss that no rate but a very low one can bear."""
        for _ in range(12):
            self.viewer.report_missing(0.9)


@pytest.fixture
async def bench() -> AsyncIterator[Bench]:
    bench = Bench(bitrate=RATE, packet_size=int(0.15 * RATE / 8))
    yield bench
    await bench.video.close()


async def show(bench: Bench, *viewers: Viewer, after_ms: float = 150) -> None:
    await bench.show(after_ms)
    for viewer in viewers:
        await viewer.take()


def join(bench: Bench) -> Viewer:
    return Viewer(bench.video.add_viewer(Codec.VP8))


async def test_the_encoder_is_made_for_the_configured_rate_and_follows_the_only_viewer(bench: Bench) -> None:
    one = join(bench)
    for _ in range(7):
        await show(bench, one)
    assert bench.encoders[0].bitrates == [RATE] and bench.stats.bitrate == RATE
    one.viewer.report_missing(0.5)
    for _ in range(2):
        await show(bench, one)
    assert bench.stats.bitrate == bench.encoders[0].bitrates[-1] < RATE
    assert len(bench.encoders) == 1 and bench.keyframes == [True] + [False] * 8


async def test_without_a_configured_rate_the_picture_decides(bench: Bench) -> None:
    other = Bench()
    viewer = Viewer(other.video.add_viewer(Codec.VP8))
    await show(other, viewer)
    assert 100_000 < other.stats.bitrate < 1_500_000
    await other.video.close()


async def test_a_slow_viewer_switches_to_a_small_picture_without_effect_on_others(bench: Bench) -> None:
    fast, slow = join(bench), join(bench)
    await show(bench, fast, slow)
    slow.choke()
    for _ in range(4):
        await show(bench, fast, slow)
    assert [bench.of(tier).viewers for tier in Tier] == [1, 0, 1]
    full, quarter = bench.encoders
    assert full.bitrates == [RATE] and quarter.bitrates[-1] <= RATE // 4
    assert full.shapes[0] == (270, 320) and set(quarter.shapes) == {(135 - 135 % 3, 160)}
    assert full.keyframes == [True] + [False] * 4
    assert [encoded.id.seq for encoded in fast.got] == [0, 1, 2, 3, 4]


async def test_a_viewer_stays_in_its_tier_until_the_keyframe_of_the_new_one(bench: Bench) -> None:
    fast, slow = join(bench), join(bench)
    await show(bench, fast, slow)
    slow.choke()
    for _ in range(6):
        await show(bench, fast, slow)
    pts = [encoded.packet.pts or 0 for encoded in slow.got]
    assert pts == sorted(set(pts))
    assert [encoded.packet.is_keyframe for encoded in slow.got].count(True) == 2
    assert [encoded.id.seq for encoded in slow.got] == sorted(encoded.id.seq for encoded in slow.got)


async def test_a_viewer_returns_after_a_time_without_congestion(bench: Bench) -> None:
    fast, slow = join(bench), join(bench)
    await show(bench, fast, slow)
    slow.choke()
    for _ in range(3):
        await show(bench, fast, slow)
    quarter = bench.encoders[1]
    for _ in range(8):
        await show(bench, fast, slow, after_ms=2000)
    await until(lambda: quarter.closed)
    assert [bench.of(tier).viewers for tier in Tier] == [2, 0, 0]
    assert bench.of(Tier.QUARTER).bitrate == 0
    pts = [encoded.packet.pts or 0 for encoded in slow.got]
    assert pts == sorted(set(pts))


async def test_a_viewer_closed_between_two_tiers_leaves_both(bench: Bench) -> None:
    fast, slow = join(bench), join(bench)
    await show(bench, fast, slow)
    slow.choke()
    bench.clock.advance(0.15)
    bench.source.publish(bench.source.latest)  # type: ignore[arg-type]
    await until(lambda: bench.of(Tier.QUARTER).viewers == 1)
    slow.viewer.close()
    await until(lambda: all(encoder.closed for encoder in bench.encoders[1:]))
    assert [bench.of(tier).viewers for tier in Tier] == [1, 0, 0]


async def test_a_frame_sent_in_two_encodings_is_stamped_one_tick_later(bench: Bench) -> None:
    slow, fast = join(bench), join(bench)  # slow is sent the full tier's packet before the other encode is done
    await show(bench, fast, slow)
    slow.choke()
    await bench.show(150)
    assert bench.of(Tier.QUARTER).viewers == 1
    await until(lambda: bench.of(Tier.QUARTER).frames_encoded == 1)  # the same frame at the same time
    first, second = await slow.take(), await slow.take()
    assert first.id == second.id and second.packet.is_keyframe
    assert second.packet.pts == (first.packet.pts or 0) + 1
