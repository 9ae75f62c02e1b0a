"""The encodes of one codec: one for each tier that somebody watches."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from concurrent.futures import Executor

from ...core.clock import NS_PER_S, Clock
from ..frame import Frame
from .encoder import VideoEncoder, default_bitrate
from .source import FrameSource
from .stream import SharedStream, StreamStats
from .tiers import Arbiter, Tier
from .viewer import VideoViewer

_DECISION_GAP_NS = NS_PER_S // 10


class Ladder:
    """All methods belong to one event loop.

    Args:
        new_encoder: makes an encoder for so many bits per second.
        packetise: makes RTP payloads of an encoded picture.
        bitrate: bits per second of the full tier; ``None`` lets the picture's size decide.
        epoch_ns: when presentation time 0 was.
    """

    def __init__(
        self,
        source: FrameSource,
        new_encoder: Callable[[int], VideoEncoder],
        packetise: Callable[[bytes], list[bytes]],
        *,
        fps: float,
        bitrate: int | None,
        epoch_ns: int,
        executor: Executor,
        clock: Clock,
    ) -> None:
        self._source = source
        self._new_encoder = new_encoder
        self._packetise = packetise
        self._fps = fps
        self._configured = bitrate
        self._epoch_ns = epoch_ns
        self._executor = executor
        self._clock = clock
        self._arbiter: Arbiter[VideoViewer] = Arbiter(clock)
        self._streams: dict[Tier, SharedStream] = {}
        self._stats = {tier: StreamStats() for tier in Tier}
        self._full_rate = 0
        self._decided_ns = 0

    @property
    def stats(self) -> Mapping[Tier, StreamStats]:
        """What was counted of each tier."""
        return self._stats

    def join(self, *, blind: bool) -> VideoViewer:
        viewer = VideoViewer(self, self._clock, blind=blind, frame_s=1 / self._fps)
        tier = self._arbiter.join(viewer).tier
        self._stream(tier).join(viewer)
        return viewer

    def leave(self, viewer: VideoViewer) -> None:
        self._arbiter.leave(viewer)

    def limit(self, viewer: VideoViewer) -> int | None:
        return self._arbiter.limit(viewer)

    def hear_rate(self, viewer: VideoViewer, bits_per_second: int) -> None:
        self._arbiter.hear_estimate(viewer, bits_per_second, viewer.sent_rate)

    def hear_missing(self, viewer: VideoViewer, share: float) -> None:
        self._arbiter.hear_loss(viewer, share, viewer.sent_rate)

    def hear_round_trip(self, viewer: VideoViewer, seconds: float) -> None:
        self._arbiter.hear_round_trip(viewer, seconds, viewer.sent_rate)

    async def close(self) -> None:
        """End every stream; its viewers are told. May be called again."""
        for stream in self._streams.values():
            await stream.close()

    def _stream(self, tier: Tier) -> SharedStream:
        """The stream of ``tier``, the same one for every viewer; a new one after one that broke."""
        stream = self._streams.get(tier)
        if stream is None or stream.broken:
            stream = self._streams[tier] = SharedStream(
                self._source,
                self._new_encoder,
                self._packetise,
                functools.partial(self._bitrate, tier),
                scale=tier.scale,
                epoch_ns=self._epoch_ns,
                stats=self._stats[tier],
                executor=self._executor,
                clock=self._clock,
            )
        return stream

    def _bitrate(self, tier: Tier, frame: Frame) -> int:
        self._full_rate = self._configured or default_bitrate(frame.width, frame.height, self._fps)
        now_ns = self._clock.now_ns()
        if now_ns - self._decided_ns >= _DECISION_GAP_NS:
            self._decided_ns = now_ns
            for viewer, other in self._arbiter.decide(self._full_rate).items():
                self._stream(other).join(viewer)
        return self._arbiter.rate(tier, self._full_rate)
