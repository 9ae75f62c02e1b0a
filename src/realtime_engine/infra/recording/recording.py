"""One running recording."""

from __future__ import annotations

import asyncio
import enum
import logging
from concurrent.futures import Executor
from typing import Protocol

from ..webrtc import EncodedFrame, StreamEnded
from .muxer import FragmentFile, FragmentMuxer, parameter_sets, picture_size
from .store import RecordingStore

logger = logging.getLogger(__name__)


class StopReason(enum.Enum):
    """Why a recording has ended; the value is sent to clients."""

    ASKED = "asked"
    SESSION_OVER = "session-over"
    UNATTENDED = "unattended"  # the session was neither watched nor controlled for a long time
    FULL = "full"  # the size limit of one recording, or of all, is reached
    FAILED = "failed"  # the disk or the encoder failed; see the log


class RecordedViewer(Protocol):
    """The send queue of one viewer, such as :class:`~realtime_engine.infra.webrtc.VideoViewer`."""

    async def next(self) -> EncodedFrame:
        """The next frame, a keyframe at first; raises ``StreamEnded`` when there are no more."""

    def close(self) -> None:
        """Leave the stream."""


class Recording:
    """Writes the H.264 packets of one viewer to files, fragment by fragment.

    When the parameter sets of the stream change (another size, another encoder), a new file is started, since an MP4
    has them in its header. A reset continues in the same file.

    Args:
        viewer: the source of packets; it is closed with the recording. A fragment starts with each of its keyframes.
        store: where files are created, and their size is counted.
        session_id: the recorded session.
        number: of the recording in its session, from :meth:`RecordingStore.allocate_number`.
        executor: threads that may block on the disk.

    Attributes:
        reason: why it has ended; ``None`` while it runs.
        bytes: written so far.
        parts: the names of its files.
    """

    def __init__(
        self, viewer: RecordedViewer, store: RecordingStore, session_id: str, number: int, executor: Executor
    ) -> None:
        self.reason: StopReason | None = None
        self.bytes = 0
        self.parts: list[str] = []
        self._viewer = viewer
        self._store = store
        self._session_id = session_id
        self._number = number
        self._executor = executor
        self._requested: StopReason | None = None
        self._seconds = 0.0
        self._sets: tuple[bytes, ...] = ()
        self._muxer: FragmentMuxer | None = None
        self._file: FragmentFile | None = None
        self._task = asyncio.create_task(self._run(), name=f"recording {number} of session {session_id}")

    @property
    def seconds(self) -> float:
        """From its first frame to its newest, over all files."""
        return self._seconds + (0.0 if self._muxer is None else self._muxer.seconds)

    async def stop(self, reason: StopReason) -> None:
        """End it, for this reason unless it has already ended; returns when its file is complete."""
        self._requested = self._requested or reason
        self._viewer.close()
        await asyncio.wait({self._task})

    async def ended(self, timeout_s: float) -> bool:
        """Wait until it has ended, ``timeout_s`` seconds at most; returns whether it has."""
        await asyncio.wait({self._task}, timeout=timeout_s)
        return self._task.done()

    async def _run(self) -> None:
        try:
            self.reason = await self._write()
        except Exception:  # a full disk, most often; the session continues
            logger.exception("recording %d of session %s broke", self._number, self._session_id)
            self.reason = StopReason.FAILED
        finally:
            self._viewer.close()
            self._close_file()
        logger.info("recording %d of session %s: %s", self._number, self._session_id, self.reason.value)

    async def _write(self) -> StopReason:
        try:
            while await self._add(await self._viewer.next()):
                pass
        except StreamEnded as ended:
            is_whole = await self._finish_part()
            if ended.error is not None:
                return StopReason.FAILED
            return (self._requested or StopReason.SESSION_OVER) if is_whole else StopReason.FULL
        return StopReason.FULL

    async def _add(self, encoded: EncodedFrame) -> bool:
        """Add a frame; false when there is no room for the fragment that it completes."""
        if encoded.packet.is_keyframe:
            data = bytes(encoded.packet)
            if (sets := parameter_sets(data)) != self._sets:
                if not await self._finish_part():
                    return False
                await self._start_part(data, sets)
        assert self._muxer is not None, "the first frame of a viewer is a keyframe"
        return await self._append(self._muxer.add(encoded))

    async def _start_part(self, keyframe: bytes, sets: tuple[bytes, ...]) -> None:
        loop = asyncio.get_running_loop()
        width, height = await loop.run_in_executor(self._executor, picture_size, keyframe)
        name, self._file = await loop.run_in_executor(
            self._executor, self._store.create, self._session_id, self._number, len(self.parts) + 1
        )
        self.parts.append(name)
        self._muxer, self._sets = FragmentMuxer(width, height), sets

    async def _finish_part(self) -> bool:
        """Complete the current file, if any; false when there was no room for its last fragment."""
        muxer, self._muxer = self._muxer, None
        if muxer is None:
            return True
        self._seconds += muxer.seconds
        is_whole = await self._append(muxer.finish())
        self._close_file()
        return is_whole

    async def _append(self, fragment: bytes) -> bool:
        size = len(fragment)
        if not fragment:
            return True
        if self.bytes + size > self._store.max_bytes or not self._store.reserve(size):
            return False
        assert self._file is not None
        await asyncio.get_running_loop().run_in_executor(self._executor, self._file.append, fragment)
        self.bytes += size
        return True

    def _close_file(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None
