"""The recordings of one session: one at a time, for as long as somebody attends to it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor
from typing import Any

from ...core.clock import MONOTONIC, NS_PER_S
from ...infra.encoding import Codec
from ...infra.recording import Recording, RecordingRuns, RecordingStore, StopReason
from ...infra.webrtc import SharedVideo
from .engine_requests import SessionOver

_LOOKS = 4  # at whether somebody attends, in the time for which nobody need


class Recordings:
    """Starts and stops them. A recording is one more viewer of the session's H.264, and shares its encode.

    Args:
        store: where they are kept.
        attended_ns: called for when somebody last watched or steered, in monotonic nanoseconds.
        patience_s: so many seconds without that end a recording, which would else keep the session for ever.

    Attributes:
        started: how many there were.
    """

    def __init__(
        self,
        store: RecordingStore,
        session_id: str,
        video: SharedVideo,
        pool: Executor,
        *,
        attended_ns: Callable[[], int],
        patience_s: float,
    ) -> None:
        self.started = 0
        self._store = store
        self._session_id = session_id
        self._video = video
        self._pool = pool
        self._attended_ns = attended_ns
        self._patience_s = patience_s
        self._current: Recording | None = None
        self._watch: asyncio.Task[None] | None = None
        self._bytes_before = 0
        self._starting = False
        self._closed = False

    @property
    def is_running(self) -> bool:
        return self._current is not None and self._current.reason is None

    @property
    def bytes(self) -> int:
        """Written by all of them."""
        return self._bytes_before + (0 if self._current is None else self._current.bytes)

    async def start(self) -> None:
        """Record from the next keyframe on.

        Errors: :class:`RecordingRuns`; :class:`SessionOver`; ``StorageFull`` and ``OSError`` when nothing can be
        stored.
        """
        if self.is_running or self._starting:
            raise RecordingRuns("The session is being recorded already: stop that first.")
        self._starting = True
        try:
            await self.stop()  # of one that has ended by itself, nothing is left to run
            number = await self._store.allocate_number(self._session_id)
        finally:
            self._starting = False
        if self._closed:
            raise SessionOver
        self._bytes_before = self.bytes
        viewer = self._video.add_viewer(Codec.H264, blind=True)  # so that a keyframe ends a fragment every other second
        self._current = Recording(viewer, self._store, self._session_id, number, self._pool)
        self.started += 1
        self._watch = asyncio.create_task(self._stop_unattended(self._current))

    async def stop(self, reason: StopReason = StopReason.ASKED) -> None:
        """End the one that runs, if one does; its file is complete then."""
        if self._current is not None:
            await self._current.stop(reason)
        if self._watch is not None:
            self._watch.cancel()
            await asyncio.wait({self._watch})

    async def close(self) -> None:
        """The session is over."""
        self._closed = True
        await self.stop(StopReason.SESSION_OVER)

    def describe(self) -> dict[str, Any]:
        """``state`` is ``none`` before the first, then ``recording`` or ``stopped``."""
        current = self._current
        if current is None:
            return {"state": "none", "reason": None, "seconds": 0.0, "bytes": 0}
        reason = None if current.reason is None else current.reason.value
        state = "recording" if reason is None else "stopped"
        return {"state": state, "reason": reason, "seconds": round(current.seconds, 3), "bytes": current.bytes}

    def is_written(self, name: str) -> bool:
        """Whether a file belongs to the recording that runs."""
        return self.is_running and self._current is not None and name in self._current.parts

    async def _stop_unattended(self, recording: Recording) -> None:
        attended_ns = MONOTONIC.now_ns()
        while not await recording.ended(self._patience_s / _LOOKS):
            attended_ns = max(attended_ns, self._attended_ns())
            if MONOTONIC.now_ns() - attended_ns >= self._patience_s * NS_PER_S:
                await recording.stop(StopReason.UNATTENDED)
