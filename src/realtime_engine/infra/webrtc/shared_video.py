"""The encoded video of one session: one encoder for each codec and tier that has viewers."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Mapping
from concurrent.futures import Executor, ThreadPoolExecutor

from ...core.clock import MONOTONIC, NS_PER_S, Clock
from ..encoding.base import Codec, VideoEncoder
from ..encoding.factory import SOFTWARE_ENCODERS
from ..encoding.rate_control import default_bitrate
from ..frame import Frame
from ..publisher import FramePublisher
from .packetizer import PACKETIZERS
from .send_queue import VideoViewer
from .stream import SharedStream, StreamOptions, StreamStats
from .tiers import Tier, TierController

_DECISION_INTERVAL_NS = NS_PER_S // 10

EncoderFactory = Callable[[Codec, float, "int | None"], VideoEncoder]


class BitrateLadder:
    """The streams of one codec, one for each tier. All methods belong to one event loop.

    Args:
        options: what the streams have in common.
        fps: the rate of frames, for the rate control.
        bitrate: bits per second of the full tier; ``None`` lets the picture's size decide.
    """

    def __init__(self, options: StreamOptions, *, fps: float, bitrate: int | None) -> None:
        self._options = options
        self._clock = options.clock
        self._fps = fps
        self._configured = bitrate
        self._tiers: TierController[VideoViewer] = TierController(options.clock)
        self._streams: dict[Tier, SharedStream] = {}
        self._stats = {tier: StreamStats() for tier in Tier}
        self._full_rate = 0
        self._decided_ns = 0

    @property
    def stats(self) -> Mapping[Tier, StreamStats]:
        """The counters of each tier."""
        return self._stats

    def add_viewer(self, *, blind: bool) -> VideoViewer:
        """Add a viewer, in the full tier; ``blind``: it cannot report losses."""
        viewer = VideoViewer(self, self._clock, blind=blind, frame_s=1 / self._fps)
        tier = self._tiers.add_viewer(viewer).tier
        self._stream(tier).add_viewer(viewer)
        return viewer

    def remove_viewer(self, viewer: VideoViewer) -> None:
        """Forget a viewer that was closed."""
        self._tiers.remove_viewer(viewer)

    def limit(self, viewer: VideoViewer) -> int | None:
        """Bits per second that the viewer can receive; ``None`` if unknown."""
        return self._tiers.limit(viewer)

    def on_estimate(self, viewer: VideoViewer, bits_per_second: int) -> None:
        """The viewer's receiver estimates that it can receive this much."""
        self._tiers.on_estimate(viewer, bits_per_second, viewer.sent_rate)

    def on_loss(self, viewer: VideoViewer, share: float) -> None:
        """The viewer lost this share of packets since its last report, from 0 to 1."""
        self._tiers.on_loss(viewer, share, viewer.sent_rate)

    def on_round_trip(self, viewer: VideoViewer, seconds: float) -> None:
        """A round trip to the viewer took this long."""
        self._tiers.on_round_trip(viewer, seconds, viewer.sent_rate)

    async def close(self) -> None:
        """End every stream and its viewers' queues. Idempotent."""
        for stream in self._streams.values():
            await stream.close()

    def _stream(self, tier: Tier) -> SharedStream:
        """The stream of ``tier``; a new one after one that broke."""
        stream = self._streams.get(tier)
        if stream is None or stream.broken:
            bitrate = functools.partial(self._bitrate, tier)
            stream = SharedStream(self._options, bitrate, scale=tier.scale, stats=self._stats[tier])
            self._streams[tier] = stream
        return stream

    def _bitrate(self, tier: Tier, frame: Frame) -> int:
        self._full_rate = self._configured or default_bitrate(frame.width, frame.height, self._fps)
        now_ns = self._clock.now_ns()
        if now_ns - self._decided_ns >= _DECISION_INTERVAL_NS:
            self._decided_ns = now_ns
            for viewer, new_tier in self._tiers.decide(self._full_rate).items():
                self._stream(new_tier).add_viewer(viewer)
        return self._tiers.rate(tier, self._full_rate)


@functools.cache
def encode_pool() -> Executor:
    """The encoder threads of this process, one for each processor."""
    return ThreadPoolExecutor(max_workers=os.cpu_count() or 1, thread_name_prefix="encode")


class SharedVideo:
    """The encoded streams of one session, each made for its first viewer.

    Args:
        source: the session's frames.
        fps: the rate of frames, for the rate control.
        bitrate: bits per second at most; ``None`` lets the picture's size decide.
        factory: makes an encoder from codec, fps and bitrate.
        executor: threads to encode on; :func:`encode_pool` by default.
        clock: stamps frames.
    """

    def __init__(
        self,
        source: FramePublisher,
        *,
        fps: float = 30.0,
        bitrate: int | None = None,
        factory: EncoderFactory = SOFTWARE_ENCODERS,
        executor: Executor | None = None,
        clock: Clock = MONOTONIC,
    ) -> None:
        self._source = source
        self._fps = fps
        self._bitrate = bitrate
        self._factory = factory
        self._executor = executor
        self._clock = clock
        self._epoch_ns = clock.now_ns()
        self._ladders: dict[Codec, BitrateLadder] = {}

    def add_viewer(self, codec: Codec, *, blind: bool = False) -> VideoViewer:
        """Add a viewer. Its queue starts with the next keyframe, which is requested here.

        Args:
            codec: viewers of the same codec share an encoder.
            blind: the viewer cannot report losses; it is sent a keyframe every other second.
        """
        ladder = self._ladders.get(codec)
        if ladder is None:
            options = StreamOptions(
                self._source,
                functools.partial(self._factory, codec, self._fps),
                PACKETIZERS[codec],
                self._epoch_ns,
                self._executor or encode_pool(),
                self._clock,
            )
            ladder = self._ladders[codec] = BitrateLadder(options, fps=self._fps, bitrate=self._bitrate)
        return ladder.add_viewer(blind=blind)

    @property
    def stats(self) -> Mapping[tuple[Codec, Tier], StreamStats]:
        """The counters of the tiers of each codec that has had a viewer."""
        return {(codec, tier): stats for codec, ladder in self._ladders.items() for tier, stats in ladder.stats.items()}

    async def close(self) -> None:
        """End every stream and its viewers' queues. Idempotent."""
        for ladder in self._ladders.values():
            await ladder.close()
