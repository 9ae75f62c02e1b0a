"""The files of recordings: a folder with a subfolder for each session, and a size limit."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import NamedTuple

from .muxer import FragmentFile, StorageFull

_NAME = re.compile(r"recording-(\d+)(?:-(\d+))?\.mp4")


class RecordedFile(NamedTuple):
    """A file of a recording; ``size`` in bytes."""

    name: str
    size: int


class RecordingStore:
    """The recordings of one server. Belongs to one event loop, except :meth:`create`, :meth:`files` and :meth:`path`.

    It never deletes a file: that is up to the operator.

    Args:
        directory: the folder; must exist.
        max_bytes: size limit of one recording, all its files together.
        max_total_bytes: size limit of all recordings.

    Attributes:
        max_bytes: see above.
    """

    def __init__(self, directory: Path, *, max_bytes: int, max_total_bytes: int) -> None:
        self.max_bytes = max_bytes
        self._directory = directory
        self._max_total_bytes = max_total_bytes
        self._used = 0

    async def allocate_number(self, session_id: str) -> int:
        """The number of a new recording in its session, from 1.

        Raises:
            StorageFull: the size limit of all recordings is reached.
            OSError: the folder cannot be used.
        """
        self._used = await asyncio.to_thread(self._measure)
        if self._used >= self._max_total_bytes:
            raise StorageFull(
                f"the recordings on this server have reached their limit of {self._max_total_bytes} bytes"
            )
        return await asyncio.to_thread(self._next_number, session_id)

    def reserve(self, size: int) -> bool:
        """Count ``size`` bytes towards the limit of all recordings; false, and nothing counted, if they exceed it."""
        if self._used + size > self._max_total_bytes:
            return False
        self._used += size
        return True

    def create(self, session_id: str, number: int, part: int) -> tuple[str, FragmentFile]:
        """A new file for a part of a recording, from 1, and its name.

        Raises:
            OSError: it cannot be created.
        """
        name = f"recording-{number}.mp4" if part == 1 else f"recording-{number}-{part}.mp4"
        return name, FragmentFile(self._directory / session_id / name)

    def files(self, session_id: str) -> list[RecordedFile]:
        """The files of a session, oldest first."""
        found = [
            (_order(path.name), RecordedFile(path.name, path.stat().st_size))
            for path in (self._directory / session_id).glob("recording-*.mp4")
            if _NAME.fullmatch(path.name)
        ]
        return [file for _, file in sorted(found)]

    def path(self, session_id: str, name: str) -> Path | None:
        """The path of a recording's file; ``None`` if there is none of this name."""
        path = self._directory / session_id / name
        return path if _NAME.fullmatch(name) and path.is_file() else None

    def _measure(self) -> int:
        return sum(path.stat().st_size for path in self._directory.glob("*/recording-*.mp4"))

    def _next_number(self, session_id: str) -> int:
        (self._directory / session_id).mkdir(exist_ok=True)
        return max((_order(file.name)[0] for file in self.files(session_id)), default=0) + 1


def _order(name: str) -> tuple[int, int]:
    found = _NAME.fullmatch(name)
    assert found is not None
    return int(found[1]), int(found[2] or 1)
