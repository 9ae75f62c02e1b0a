"""The encoded video of one session: one encode for each codec that somebody watches."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from concurrent.futures import Executor, ThreadPoolExecutor

from ...core.clock import MONOTONIC, Clock
from .codecs import Codec
from .encoder import VideoEncoder, create_encoder
from .source import FrameSource
from .stream import SharedStream, StreamStats
from .viewer import VideoViewer

EncoderFactory = Callable[[Codec, float, "int | None"], VideoEncoder]


@functools.cache
def encode_pool() -> Executor:
    """The threads of this process that encode, one for each processor."""
    return ThreadPoolExecutor(max_workers=os.cpu_count() or 1, thread_name_prefix="encode")


class SharedVideo:
    """The encoded streams of one session, each made when the first viewer of its codec comes.

    Args:
        source: the session's frames.
        fps: the rate at which they come, for the rate control.
        bitrate: bits per second; ``None`` lets the picture's size decide.
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
        self._streams: dict[Codec, SharedStream] = {}

    def join(self, codec: Codec, *, blind: bool = False) -> VideoViewer:
        """Watch from the next keyframe on, which is asked for here. Whoever watches the same codec shares its encode.

        Args:
            blind: this viewer cannot report losses; keyframes then come by themselves every other second.
        """
        return self._stream(codec).join(blind=blind)

    def stats(self, codec: Codec) -> StreamStats:
        """What was counted of the present stream of ``codec``; zeros before there is one."""
        stream = self._streams.get(codec)
        return StreamStats() if stream is None else stream.stats

    async def close(self) -> None:
        """End every stream; its viewers are told. May be called again."""
        for stream in self._streams.values():
            await stream.close()

    def _stream(self, codec: Codec) -> SharedStream:
        """The stream of ``codec``, the same one for every viewer; a new one after one that broke."""
        stream = self._streams.get(codec)
        if stream is None or stream.broken:
            stream = self._streams[codec] = SharedStream(
                self._source,
                functools.partial(self._factory, codec, self._fps, self._bitrate),
                executor=self._executor or encode_pool(),
                clock=self._clock,
            )
        return stream
