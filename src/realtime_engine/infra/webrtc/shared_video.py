"""The encoded video of one session: one encode for each codec and tier that somebody watches."""

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
from .stream import SharedStream, StreamStats
from .tiers import Tier, TierController

_DECISION_GAP_NS = NS_PER_S // 10


class Ladder:
    """All methods belong to one event loop.

    Args:
        new_encoder: makes an encoder for so many bits per second.
        packetize: makes RTP payloads of an encoded picture.
        bitrate: bits per second of the full tier; ``None`` lets the picture's size decide.
        epoch_ns: when presentation time 0 was.
    """

    def __init__(
        self,
        source: FramePublisher,
        new_encoder: Callable[[int], VideoEncoder],
        packetize: Callable[[bytes], list[bytes]],
        *,
        fps: float,
        bitrate: int | None,
        epoch_ns: int,
        executor: Executor,
        clock: Clock,
    ) -> None:
        self._source = source
        self._new_encoder = new_encoder
        self._packetise = packetize
        self._fps = fps
        self._configured = bitrate
        self._epoch_ns = epoch_ns
        self._executor = executor
        self._clock = clock
        self._arbiter: TierController[VideoViewer] = TierController(clock)
        self._streams: dict[Tier, SharedStream] = {}
        self._stats = {tier: StreamStats() for tier in Tier}
        self._full_rate = 0
        self._decided_ns = 0

    @property
    def stats(self) -> Mapping[Tier, StreamStats]:
        """What was counted of each tier."""
        return self._stats

    def add_viewer(self, *, blind: bool) -> VideoViewer:
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


EncoderFactory = Callable[[Codec, float, "int | None"], VideoEncoder]


@functools.cache
def encode_pool() -> Executor:
    """The threads of this process that encode, one for each processor."""
    return ThreadPoolExecutor(max_workers=os.cpu_count() or 1, thread_name_prefix="encode")


class SharedVideo:
    """The encoded streams of one session, each made when its first viewer comes.

    Args:
        source: the session's frames.
        fps: the rate at which they come, for the rate control.
        bitrate: bits per second at most; ``None`` lets the picture's size decide.
        factory: makes an encoder from codec, fps and bitrate.
        executor: where encoding runs; :func:`encode_pool` by default.
        clock: tells when a frame came.
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
        self._ladders: dict[Codec, Ladder] = {}

    def add_viewer(self, codec: Codec, *, blind: bool = False) -> VideoViewer:
        """Watch from the next keyframe on, which is asked for here. Whoever watches the same codec shares its encode.

        Args:
            blind: this viewer cannot report losses; keyframes then come by themselves every other second.
        """
        ladder = self._ladders.get(codec)
        if ladder is None:
            ladder = self._ladders[codec] = Ladder(
                self._source,
                functools.partial(self._factory, codec, self._fps),
                PACKETIZERS[codec],
                fps=self._fps,
                bitrate=self._bitrate,
                epoch_ns=self._epoch_ns,
                executor=self._executor or encode_pool(),
                clock=self._clock,
            )
        return ladder.add_viewer(blind=blind)

    @property
    def stats(self) -> Mapping[tuple[Codec, Tier], StreamStats]:
        """What was counted of the tiers of each codec that was ever watched."""
        return {(codec, tier): stats for codec, ladder in self._ladders.items() for tier, stats in ladder.stats.items()}

    async def close(self) -> None:
        """End every stream; its viewers are told. May be called again."""
        for ladder in self._ladders.values():
            await ladder.close()
