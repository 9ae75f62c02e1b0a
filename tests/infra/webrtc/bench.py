"""A shared video over a fake source and fake encoders, in manual time."""

from __future__ import annotations

from realtime_engine.infra.encoding.base import Codec
from realtime_engine.infra.publisher import FramePublisher
from realtime_engine.infra.webrtc.send_queue import VideoViewer
from realtime_engine.infra.webrtc.shared_video import SharedVideo
from realtime_engine.infra.webrtc.stream import StreamStats
from realtime_engine.infra.webrtc.tiers import Tier
from realtime_engine.testing import ManualClock

from .support import FakeEncoder, GatedExecutor, InlineExecutor, frame, until


class Bench:
    """What is watched is VP8."""

    def __init__(self, bitrate: int | None = None, packet_size: int = 1) -> None:
        self.packet_size = packet_size
        self.source = FramePublisher()
        self.clock = ManualClock(5_000_000_000)
        self.encoders: list[FakeEncoder] = []
        self.video = SharedVideo(
            self.source, bitrate=bitrate, factory=self.encoder, executor=InlineExecutor(), clock=self.clock
        )
        self.number = -1
        self._gate: GatedExecutor | None = None

    def gate_encoder(self) -> GatedExecutor:
        """From now on each encode waits until the returned gate is opened."""
        self._gate = GatedExecutor()
        self.video = SharedVideo(self.source, factory=self.encoder, executor=self._gate, clock=self.clock)
        return self._gate

    async def close(self) -> None:
        if self._gate is not None:
            self._gate.open_for_good()
        await self.video.close()

    def encoder(self, codec: Codec, fps: float, bitrate: int | None) -> FakeEncoder:
        self.encoders.append(FakeEncoder(self.packet_size))
        return self.encoders[-1]

    async def show(self, after_ms: float = 40) -> None:
        """Show the next frame and return when every tier that is watched has encoded it."""
        self.clock.advance(after_ms / 1000)
        self.number += 1
        before = {tier: self.of(tier).frames_encoded for tier in Tier if self.of(tier).viewers}
        self.source.publish(frame(self.number))
        await until(lambda: all(self._has_gone_on(tier, count) for tier, count in before.items()))

    def _has_gone_on(self, tier: Tier, encoded: int) -> bool:
        return not self.of(tier).viewers or self.of(tier).frames_encoded > encoded

    @property
    def stats(self) -> StreamStats:
        return self.of(Tier.FULL)

    def of(self, tier: Tier) -> StreamStats:
        return self.video.stats.get((Codec.VP8, tier), StreamStats())

    @property
    def keyframes(self) -> list[bool]:
        return self.encoders[-1].keyframes


async def seqs(viewer: VideoViewer, count: int) -> list[int]:
    return [(await viewer.next()).id.seq for _ in range(count)]
