"""The format of control logs: one JSON object per line, a reader and a writer.

A line is ``{"t": seconds, "chunk": seq, "controller": slot, "message": {...}}``. ``message`` belongs to the controls
protocol or is one of the log's own types (:data:`OWN_TYPES`). ``chunk`` is the first chunk that it affects. Without
``chunk``, as in a handwritten log, it affects the first chunk that begins at ``t`` or later. ``controller`` is
the slot of the client that sent the message, left out for slot 0; ``join`` and ``leave`` record which slots are taken.
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

from ..controls.group import MAX_CONTROLLERS
from ..controls.parsing import MessageRefused, parse_message

_log = logging.getLogger(__name__)

LOG_VERSION = 1
OWN_TYPES = ("log", "attach", "act", "reset", "begun", "release", "join", "leave", "end")
_MEMBERS = {"t", "chunk", "controller", "message"}
_ROUNDING = 1e-6  # chunks; times are decimal fractions, chunk periods are not


class LogError(ValueError):
    """A control log is invalid; the message names file and line."""


@dataclass(frozen=True)
class Entry:
    """One line of a control log.

    Attributes:
        t: seconds since the start of the session.
        message: a message of the controls protocol, or of the log's own types.
        chunk: the first chunk that the message affects; ``None`` to derive it from ``t``.
        line: line number, from 1.
        controller: slot of the client that sent the message.
    """

    t: float
    message: Mapping[str, Any]
    chunk: int | None = None
    line: int = 0
    controller: int = 0

    @property
    def kind(self) -> str:
        """Type of the message."""
        return str(self.message["type"])

    def first_chunk(self, rate_hz: float) -> int:
        """The first chunk that the message affects, at ``rate_hz`` chunks per second."""
        return math.ceil(self.t * rate_hz - _ROUNDING) if self.chunk is None else self.chunk


@dataclass(frozen=True)
class ControlLog:
    """The contents of a control log.

    Attributes:
        entries: the lines in order, without the header.
        demo: name of the recorded demo; ``None`` if the log has no header.
        options: options of the recorded demo.
    """

    entries: tuple[Entry, ...] = ()
    demo: str | None = None
    options: Mapping[str, Any] | None = None

    def chunks(self, rate_hz: float) -> int:
        """Number of chunks up to and including the one that the last line affects; 0 for an empty log."""
        ends = (entry.first_chunk(rate_hz) + (entry.kind != "end") for entry in self.entries)
        return max(ends, default=0)


def read_log(path: str | os.PathLike[str]) -> ControlLog:
    """Read a control log.

    An incomplete last line, as left by a crash, is skipped with a warning.

    Raises:
        LogError: a line is invalid.
        OSError: the file cannot be read.
    """
    demo: str | None = None
    options: Mapping[str, Any] | None = None
    entries: list[Entry] = []
    for entry in _entries(Path(path)):
        if entry.kind != "log":
            if entries and _goes_back(entries[-1], entry):
                raise LogError(f"{path}, line {entry.line}: expected lines in the order of their chunks and times")
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
                _log.warning("%s: line %d is incomplete and skipped: %s", path, number, error)


def _entry(text: str, number: int) -> Entry:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise LogError(f"not JSON: {error}") from None
    if not isinstance(value, dict) or not {"t", "message"} <= set(value) <= _MEMBERS:
        raise LogError('expected an object with "t", "message" and optionally "chunk" and "controller"')
    t, chunk, message = value["t"], value.get("chunk"), value["message"]
    if isinstance(t, bool) or not isinstance(t, (int, float)) or not 0 <= t < math.inf:
        raise LogError(f"t must be seconds of 0 or more, got {t!r}")
    if chunk is not None and (isinstance(chunk, bool) or not isinstance(chunk, int) or chunk < 0):
        raise LogError(f"chunk must be an integer of 0 or more, got {chunk!r}")
    controller = value.get("controller", 0)
    if isinstance(controller, bool) or not isinstance(controller, int) or not 0 <= controller < MAX_CONTROLLERS:
        raise LogError(f"controller must be an integer from 0 to {MAX_CONTROLLERS - 1}, got {controller!r}")
    if not isinstance(message, dict):
        raise LogError(f"message must be an object, got {message!r}")
    if message.get("type") not in OWN_TYPES:
        try:
            parse_message(message)
        except MessageRefused as refusal:
            raise LogError(f"message: {refusal}") from None
    return Entry(float(t), message, chunk, number, controller)


def _goes_back(last: Entry, entry: Entry) -> bool:
    if last.chunk is not None and entry.chunk is not None:
        return entry.chunk < last.chunk
    return entry.t < last.t


_TIMEOUT_S = 1.0


def line_of(t: float, chunk: int, message: Mapping[str, Any], controller: int = 0) -> bytes:
    """One line of a control log."""
    sender = {"controller": controller} if controller else {}
    entry = {"t": round(t, 6), "chunk": chunk, **sender, "message": message}
    return (json.dumps(entry, ensure_ascii=False, separators=(",", ":")) + "\n").encode("utf-8", "replace")


class LineWriter:
    """Appends lines to files on a background thread. Thread-safe.

    Each line is written by one call, so that readers see complete lines. A file that cannot be written is abandoned
    with one log message. Files are readable by their owner only.
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
        """Write pending lines for at most one second, and close all files."""
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
                _log.error("%s cannot be written, the recording of this session ends: %s", path, error)
                self._close(path)
                self._files[path] = None
        for path in list(self._files):
            self._close(path)

    def _append(self, path: Path, line: bytes) -> None:
        if path not in self._files:
            self._files[path] = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o600)
        file = self._files[path]
        if file is not None and os.write(file, line) < len(line):
            raise OSError("the line was written only in part")

    def _close(self, path: Path) -> None:
        file = self._files.pop(path, None)
        if file is not None:
            os.close(file)
