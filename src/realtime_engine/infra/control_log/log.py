"""Control logs: what one session was told, and before which of its chunks. One JSON object a line.

A line is ``{"t": seconds, "chunk": seq, "message": {...}}``. ``message`` is one of the controls protocol, or one of the
log's own (:data:`OWN_TYPES`). It was in force for the chunk ``chunk`` and not for the one before. Without ``chunk``,
as in a log written by hand, it comes in force with the first chunk that begins at ``t`` or later.
"""

from __future__ import annotations

import json
import logging
import math
import os
import queue
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..controls.parsing import MessageRefused, parse_message

_log = logging.getLogger(__name__)

LOG_VERSION = 1
OWN_TYPES = ("log", "attach", "act", "reset", "begun", "release", "end")
_MEMBERS = {"t", "chunk", "message"}
_ROUNDING = 1e-6  # of a chunk: times are decimal fractions, chunk periods are not


class LogError(ValueError):
    """A control log that cannot be read; the message names file and line."""


@dataclass(frozen=True)
class Entry:
    """One line.

    Attributes:
        t: seconds since the session began.
        message: of the controls protocol, or of the log's own.
        chunk: the first chunk that it counts for; ``None`` lets ``t`` decide.
        line: its number in the file, from 1.
    """

    t: float
    message: Mapping[str, Any]
    chunk: int | None = None
    line: int = 0

    @property
    def kind(self) -> str:
        return str(self.message["type"])

    def first_chunk(self, rate_hz: float) -> int:
        """The first chunk that it counts for, at ``rate_hz`` chunks per second."""
        return math.ceil(self.t * rate_hz - _ROUNDING) if self.chunk is None else self.chunk


@dataclass(frozen=True)
class ControlLog:
    """What a file holds.

    Attributes:
        entries: its lines but for the head, in order.
        demo: name of the demo that it was recorded with; ``None`` if nobody wrote that down.
        options: the demo's options at that time.
    """

    entries: tuple[Entry, ...] = ()
    demo: str | None = None
    options: Mapping[str, Any] | None = None

    def chunks(self, rate_hz: float) -> int:
        """How many chunks there are until its last line counts, that one included; 0 for an empty log."""
        ends = (entry.first_chunk(rate_hz) + (entry.kind != "end") for entry in self.entries)
        return max(ends, default=0)


def read_log(path: str | os.PathLike[str]) -> ControlLog:
    """Read a control log.

    A last line without an end, which a crash leaves, is left out with a warning.

    Raises:
        LogError: a line that is none of a control log.
        OSError: the file cannot be read.
    """
    demo: str | None = None
    options: Mapping[str, Any] | None = None
    entries: list[Entry] = []
    for entry in _entries(Path(path)):
        if entry.kind != "log":
            if entries and _goes_back(entries[-1], entry):
                raise LogError(f"{path}, line {entry.line}: expected lines in the order in which they count")
            entries.append(entry)
            continue
        if entry.message.get("version") != LOG_VERSION:
            given = entry.message.get("version")
            raise LogError(f"{path}: a control log of version {given!r}, this program reads {LOG_VERSION}")
        demo, options = entry.message.get("demo"), entry.message.get("options")
    return ControlLog(tuple(entries), demo, options)


def _entries(path: Path) -> Iterator[Entry]:
    with open(path, encoding="utf-8", errors="replace", newline="\n") as file:
        for number, text in enumerate(file, 1):
            if not text.strip():
                continue
            try:
                yield _entry(text, number)
            except LogError as error:
                if text.endswith("\n"):
                    raise LogError(f"{path}, line {number}: {error}") from None
                _log.warning("%s, line %d is left out, it has no end: %s", path, number, error)


def _entry(text: str, number: int) -> Entry:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise LogError(f"not JSON: {error}") from None
    if not isinstance(value, dict) or not {"t", "message"} <= set(value) <= _MEMBERS:
        raise LogError('expected an object with "t", "message" and, if you like, "chunk"')
    t, chunk, message = value["t"], value.get("chunk"), value["message"]
    if isinstance(t, bool) or not isinstance(t, (int, float)) or not 0 <= t < math.inf:
        raise LogError(f"t must be seconds of 0 or more, got {t!r}")
    if chunk is not None and (isinstance(chunk, bool) or not isinstance(chunk, int) or chunk < 0):
        raise LogError(f"chunk must be an integer of 0 or more, got {chunk!r}")
    if not isinstance(message, dict):
        raise LogError(f"message must be an object, got {message!r}")
    if message.get("type") not in OWN_TYPES:
        try:
            parse_message(message)
        except MessageRefused as refusal:
            raise LogError(f"message: {refusal}") from None
    return Entry(float(t), message, chunk, number)


def _goes_back(last: Entry, entry: Entry) -> bool:
    if last.chunk is not None and entry.chunk is not None:
        return entry.chunk < last.chunk
    return entry.t < last.t


_TIMEOUT_S = 1.0


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
        self._thread.join(_TIMEOUT_S)

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
