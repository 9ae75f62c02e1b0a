"""Lines of control logs, appended by a thread of their own, so that no disk holds up an engine."""

from __future__ import annotations

import json
import logging
import os
import queue
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

_log = logging.getLogger(__name__)

_PATIENCE_S = 1.0


def line_of(t: float, chunk: int, message: Mapping[str, Any]) -> bytes:
    """One line of a control log."""
    entry = {"t": round(t, 6), "chunk": chunk, "message": message}
    return (json.dumps(entry, ensure_ascii=False, separators=(",", ":")) + "\n").encode("utf-8", "replace")


class LineWriter:
    """Appends lines to files, each line by one write, so that a reader sees whole lines. From any thread.

    A file that cannot be written to is given up with one line in the log. Files are made for their owner alone.
    """

    def __init__(self) -> None:
        self._lines: queue.SimpleQueue[tuple[Path, bytes | None] | None] = queue.SimpleQueue()
        self._files: dict[Path, int | None] = {}
        self._thread = threading.Thread(target=self._run, name="write control logs", daemon=True)
        self._thread.start()

    def put(self, path: Path, line: bytes | None) -> None:
        """Append a line; ``None`` closes the file."""
        self._lines.put((path, line))

    def close(self) -> None:
        """Write what waits, for a second at most, and close all files."""
        self._lines.put(None)
        self._thread.join(_PATIENCE_S)

    def _run(self) -> None:
        while (job := self._lines.get()) is not None:
            path, line = job
            try:
                if line is None:
                    self._close(path)
                else:
                    self._append(path, line)
            except OSError as error:
                _log.error("%s cannot be written, this session is not recorded any further: %s", path, error)
                self._close(path)
                self._files[path] = None
        for path in list(self._files):
            self._close(path)

    def _append(self, path: Path, line: bytes) -> None:
        if path not in self._files:
            self._files[path] = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o600)
        file = self._files[path]
        if file is not None and os.write(file, line) < len(line):
            raise OSError("the disk took only a part of a line")

    def _close(self, path: Path) -> None:
        file = self._files.pop(path, None)
        if file is not None:
            os.close(file)
