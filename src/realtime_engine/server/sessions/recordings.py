"""The recordings of one session: one at a time, stopped when the session is unattended."""

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

_CHECKS_PER_TIMEOUT = 4


class Recordings:
    """Starts and stops recordings. A recording is one more viewer of the session's H.264 and shares its encoder.

    Args:
        store: where the files go.
        session_id: the session.
        video: the session's video.
        pool: threads that write the files.
        attended_ns: returns when a client last watched or sent controls, in monotonic nanoseconds.
        idle_timeout_s: a recording of a session that is unattended for so many seconds is stopped, since a recording
            keeps its session alive.

    Attributes:
        started: recordings started so far.
    """

    def __init__(
        self,
        store: RecordingStore,
        session_id: str,
        video: SharedVideo,
        pool: Executor,
        *,
        attended_ns: Callable[[], int],
        idle_timeout_s: float,
    ) -> None:
        self.started = 0
        self._store = store
        self._session_id = session_id
        self._video = video
        self._pool = pool
        self._attended_ns = attended_ns
        self._idle_timeout_s = idle_timeout_s
        self._current: Recording | None = None
        self._watchdog: asyncio.Task[None] | None = None
        self._earlier_bytes = 0
        self._starting = False
        self._closed = False

    @property
    def is_running(self) -> bool:
        """Whether the session is being recorded."""
        return self._current is not None and self._current.reason is None

    @property
    def bytes(self) -> int:
        """Bytes written by all recordings."""
        return self._earlier_bytes + (0 if self._current is None else self._current.bytes)

    async def start(self) -> None:
        """Start recording with the next keyframe.

        Raises:
            RecordingRuns: the session is being recorded.
            SessionOver: the session ended.
            StorageFull: the storage has no room.
            OSError: the file cannot be created.
        """
        if self.is_running or self._starting:
            raise RecordingRuns("The session is already being recorded. Stop that recording first.")
        self._starting = True
        try:
            await self.stop()  # cancels the watchdog of a recording that has ended
            number = await self._store.allocate_number(self._session_id)
        finally:
            self._starting = False
        if self._closed:
            raise SessionOver
        self._earlier_bytes = self.bytes
        viewer = self._video.add_viewer(Codec.H264, blind=True)  # so that a keyframe ends a fragment every other second
        self._current = Recording(viewer, self._store, self._session_id, number, self._pool)
        self.started += 1
        self._watchdog = asyncio.create_task(self._stop_unattended(self._current))

    async def stop(self, reason: StopReason = StopReason.ASKED) -> None:
        """Stop the current recording, if there is one; its file is complete on return."""
        if self._current is not None:
            await self._current.stop(reason)
        if self._watchdog is not None:
            self._watchdog.cancel()
            await asyncio.wait({self._watchdog})

    async def close(self) -> None:
        """Stop recording: the session ends."""
        self._closed = True
        await self.stop(StopReason.SESSION_OVER)

    def describe(self) -> dict[str, Any]:
        """The newest recording; its ``state`` is ``none``, ``recording`` or ``stopped``."""
        current = self._current
        if current is None:
            return {"state": "none", "reason": None, "seconds": 0.0, "bytes": 0}
        reason = None if current.reason is None else current.reason.value
        state = "recording" if reason is None else "stopped"
        return {"state": state, "reason": reason, "seconds": round(current.seconds, 3), "bytes": current.bytes}

    def is_written(self, name: str) -> bool:
        """Whether the file ``name`` belongs to the current recording."""
        return self.is_running and self._current is not None and name in self._current.parts

    async def _stop_unattended(self, recording: Recording) -> None:
        attended_ns = MONOTONIC.now_ns()
        while not await recording.ended(self._idle_timeout_s / _CHECKS_PER_TIMEOUT):
            attended_ns = max(attended_ns, self._attended_ns())
            if MONOTONIC.now_ns() - attended_ns >= self._idle_timeout_s * NS_PER_S:
                await recording.stop(StopReason.UNATTENDED)
