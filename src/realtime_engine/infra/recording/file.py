"""A file that grows by whole fragments."""

from __future__ import annotations

import os
from pathlib import Path


class FragmentFile:
    """A new file; whatever happens, what it holds ends with a whole fragment.

    Errors: ``FileExistsError`` and every other ``OSError`` of opening it.
    """

    def __init__(self, path: Path) -> None:
        self.size = 0
        self._path = path
        self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)

    def append(self, fragment: bytes) -> None:
        """Write it now, so that the end of this process does not take it along. May wait for the disk.

        Errors: ``OSError``; nothing of the fragment is left then.
        """
        rest = memoryview(fragment)
        try:
            while rest:
                rest = rest[os.write(self._fd, rest) :]
        except OSError:
            os.ftruncate(self._fd, self.size)
            os.lseek(self._fd, self.size, os.SEEK_SET)
            raise
        self.size += len(fragment)

    def close(self) -> None:
        """Keep what was written; if that is nothing, keep no file."""
        os.close(self._fd)
        if not self.size:
            self._path.unlink(missing_ok=True)
