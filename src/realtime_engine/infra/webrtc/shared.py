"""The encoded video of one session: one encode for each codec and tier that somebody watches."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Mapping
from concurrent.futures import Executor, ThreadPoolExecutor

from ...core.clock import MONOTONIC, Clock
from .codecs import Codec
from .encoder import VideoEncoder, create_encoder
from .ladder import Ladder
from .packetise import PACKETISERS
from .source import FrameSource
from .stream import StreamStats
from .tiers import Tier
from .viewer import VideoViewer

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
        source: FrameSource,
        *,
        fps: float = 30.0,
        bitrate: int | None = None,
        factory: EncoderFactory = create_encoder,
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

    def join(self, codec: Codec, *, blind: bool = False) -> VideoViewer:
        """Watch from the next keyframe on, which is asked for here. Whoever watches the same codec shares its encode.

        Args:
            blind: this viewer cannot report losses; keyframes then come by themselves every other second.
        """
        ladder = self._ladders.get(codec)
        if ladder is None:
            ladder = self._ladders[codec] = Ladder(
                self._source,
                functools.partial(self._factory, codec, self._fps),
                PACKETISERS[codec],
                fps=self._fps,
                bitrate=self._bitrate,
                epoch_ns=self._epoch_ns,
                executor=self._executor or encode_pool(),
                clock=self._clock,
            )
        return ladder.join(blind=blind)

    @property
    def stats(self) -> Mapping[tuple[Codec, Tier], StreamStats]:
        """What was counted of the tiers of each codec that was ever watched."""
        return {(codec, tier): stats for codec, ladder in self._ladders.items() for tier, stats in ladder.stats.items()}

    async def close(self) -> None:
        """End every stream; its viewers are told. May be called again."""
        for ladder in self._ladders.values():
            await ladder.close()
