"""One recording while it runs."""

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
    """Why a recording has ended; the value is what clients are told."""

    ASKED = "asked"
    SESSION_OVER = "session-over"
    UNATTENDED = "unattended"  # nobody has watched or steered for long
    FULL = "full"  # what it, or all of them, may take on the disk is taken
    FAILED = "failed"  # the disk, or the encoder; the log says what


class RecordedViewer(Protocol):
    """One viewer's end of a shared stream, such as :class:`~realtime_engine.infra.webrtc.VideoViewer`."""

    async def next(self) -> EncodedFrame:
        """The next packet, a keyframe at first; ``StreamEnded`` when there is nothing more."""

    def close(self) -> None:
        """Watch no more."""


class Recording:
    """Writes what a viewer is sent, as it is, fragment by fragment; a part of its own for each form of the stream.

    A stream whose parameter sets change (another size, another encoder) goes on in a new file, since those of an MP4
    stand at its begin. Resets stay in the same file.

    Args:
        viewer: where packets come from, H.264; closed with this. Its keyframes are where fragments begin.
        session_id, number: whose recording it is, and which, as :meth:`RecordingStore.allocate_number` has said.
        executor: where the disk is waited for.

    Attributes:
        reason: why it has ended; ``None`` while it runs.
        bytes: so much has been written. parts: the names of its files.
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
        self._asked: StopReason | None = None
        self._seconds = 0.0
        self._sets: tuple[bytes, ...] = ()
        self._muxer: FragmentMuxer | None = None
        self._file: FragmentFile | None = None
        self._task = asyncio.create_task(self._run(), name=f"recording {number} of session {session_id}")

    @property
    def seconds(self) -> float:
        """From its first frame to its newest, over all parts."""
        return self._seconds + (0.0 if self._muxer is None else self._muxer.seconds)

    async def stop(self, reason: StopReason) -> None:
        """End it, for this reason unless it has ended already; returns when its file is complete."""
        self._asked = self._asked or reason
        self._viewer.close()
        await asyncio.wait({self._task})

    async def ended(self, timeout_s: float) -> bool:
        """Whether it has ended, waiting for that for ``timeout_s`` seconds at most."""
        await asyncio.wait({self._task}, timeout=timeout_s)
        return self._task.done()

    async def _run(self) -> None:
        try:
            self.reason = await self._write()
        except Exception:  # a full disk, most often; whoever is recorded plays on
            logger.exception("recording %d of session %s broke", self._number, self._session_id)
            self.reason = StopReason.FAILED
        finally:
            self._viewer.close()
            self._close_file()
        logger.info("recording %d of session %s: %s", self._number, self._session_id, self.reason.value)

    async def _write(self) -> StopReason:
        try:
            while await self._take(await self._viewer.next()):
                pass
        except StreamEnded as ended:
            is_whole = await self._finish_part()
            if ended.error is not None:
                return StopReason.FAILED
            return (self._asked or StopReason.SESSION_OVER) if is_whole else StopReason.FULL
        return StopReason.FULL

    async def _take(self, encoded: EncodedFrame) -> bool:
        """Take a packet in; false when there is no room for the fragment that it ends."""
        if encoded.packet.is_keyframe:
            data = bytes(encoded.packet)
            if (sets := parameter_sets(data)) != self._sets:
                if not await self._finish_part():
                    return False
                await self._begin_part(data, sets)
        assert self._muxer is not None, "a viewer is sent a keyframe at first"
        return await self._append(self._muxer.add(encoded))

    async def _begin_part(self, keyframe: bytes, sets: tuple[bytes, ...]) -> None:
        loop = asyncio.get_running_loop()
        width, height = await loop.run_in_executor(self._executor, picture_size, keyframe)
        name, self._file = await loop.run_in_executor(
            self._executor, self._store.create, self._session_id, self._number, len(self.parts) + 1
        )
        self.parts.append(name)
        self._muxer, self._sets = FragmentMuxer(width, height), sets

    async def _finish_part(self) -> bool:
        """Complete the file that is written, if there is one; false when there was no room for its end."""
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
        if self.bytes + size > self._store.max_bytes or not self._store.claim(size):
            return False
        assert self._file is not None
        await asyncio.get_running_loop().run_in_executor(self._executor, self._file.append, fragment)
        self.bytes += size
        return True

    def _close_file(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None
