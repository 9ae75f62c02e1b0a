"""Records the control messages of served sessions, each with the first chunk that it affects."""

from __future__ import annotations

import logging
import math
import os
import threading
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from ...core.clock import MONOTONIC, NS_PER_S
from ...core.messages import Chunk, Detached, Failed, ResetDone
from ...core.outbox import Outbox, OutboxItem
from .log import LOG_VERSION, LineWriter, line_of

_log = logging.getLogger(__name__)

MAX_BYTES = 64 * 1024 * 1024  # file of one session
_MAX_PENDING = 4096  # lines whose chunk is unknown
_NOT_YET = math.inf


@dataclass(slots=True)
class _PendingLine:
    """A line whose chunk is unknown. An action received at or after ``since_ns`` includes it."""

    t: float
    message: Mapping[str, Any]
    since_ns: float
    controller: int = 0


class SessionLog:
    """The log of one session. :meth:`on_output` is called on the engine's thread, all else on the event loop.

    Each chunk carries the time at which its newest action was received. Actions are received in the order in which they
    are put, each after a call of :meth:`on_action`, so the time tells which messages affect the chunk.
    """

    def __init__(self, writer: LineWriter | None, path: Path, head: Mapping[str, Any], max_bytes: int) -> None:
        self._writer = writer
        self._path = path
        self._remaining_bytes = max_bytes
        self._lock = threading.Lock()
        self._begin_ns = MONOTONIC.now_ns()
        self._pending: deque[_PendingLine] = deque()
        self._resolved: deque[_PendingLine] = deque()  # lines that affect the next chunk
        self._chunks = 0
        if writer is not None:
            self._write(0.0, 0, head)

    def on_attach(self, fields: Mapping[str, Any], drawn: Mapping[str, Any]) -> None:
        """The session starts with these fields, as sent, and these values drawn by default factories."""
        self._record({"type": "attach", "fields": dict(fields), "drawn": dict(drawn)}, 0)

    def on_message(self, message: BaseModel, controller: int = 0) -> None:
        """A message of the controls protocol was accepted. An action follows."""
        if self._writer is not None:
            self._record(message.model_dump(mode="json", exclude_unset=True), _NOT_YET, controller)

    def record(self, kind: str, controller: int = 0, **more: Any) -> None:
        """Record a message of the log's own types."""
        self._record({"type": kind, **more}, _NOT_YET, controller)

    def on_action(self) -> None:
        """An action is about to be put. It includes everything recorded so far."""
        if self._writer is None:
            return
        now_ns = MONOTONIC.now_ns()
        with self._lock:
            for pending in reversed(self._pending):
                if pending.since_ns != _NOT_YET:
                    break
                if pending.message["type"] != "reset":  # a reset is resolved by its reply
                    pending.since_ns = now_ns

    def on_reset_reply(self, accepted: bool) -> None:
        """The engine replied to a reset."""
        if not accepted:
            with self._lock:
                self._resolve_resets(everything=True)
        self.record("begun", accepted=accepted)

    def on_output(self, item: OutboxItem) -> None:
        """The engine puts a chunk or an event into the outbox."""
        with self._lock:
            if isinstance(item, Chunk):
                self._on_chunk(item)
            elif isinstance(item, ResetDone):
                self._resolve_resets(everything=False)
            elif isinstance(item, Detached) or (isinstance(item, Failed) and item.fatal):
                self._end()

    def close(self) -> None:
        """End the log. Idempotent."""
        with self._lock:
            self._close()

    def _record(self, message: Mapping[str, Any], since_ns: float, controller: int = 0) -> None:
        if self._writer is None:
            return
        with self._lock:
            t = (MONOTONIC.now_ns() - self._begin_ns) / NS_PER_S
            self._pending.append(_PendingLine(t, message, since_ns, controller))
            if len(self._pending) > _MAX_PENDING:
                self._abandon(f"{_MAX_PENDING} messages without a chunk")

    def _on_chunk(self, chunk: Chunk) -> None:
        self._chunks = chunk.seq + 1
        received_ns = chunk.stamps.action_received or 0
        while self._pending and self._pending[0].since_ns <= received_ns:
            self._resolved.append(self._pending.popleft())
        while self._resolved and self._writer is not None:
            resolved = self._resolved.popleft()
            self._write(resolved.t, chunk.seq, resolved.message, resolved.controller)

    def _resolve_resets(self, *, everything: bool) -> None:
        """Resolve the lines up to the first pending reset, or up to the last one."""
        resets = [at for at, pending in enumerate(self._pending) if pending.message["type"] == "reset"]
        for _ in range((resets[-1 if everything else 0] + 1) if resets else 0):
            self._resolved.append(self._pending.popleft())

    def _end(self) -> None:
        if self._writer is not None:
            self._write((MONOTONIC.now_ns() - self._begin_ns) / NS_PER_S, self._chunks, {"type": "end"})
            self._close()

    def _write(self, t: float, chunk: int, message: Mapping[str, Any], controller: int = 0) -> None:
        line = line_of(t, chunk, message, controller)
        self._remaining_bytes -= len(line)
        if self._remaining_bytes < 0:
            self._abandon("the size limit is reached")
        elif self._writer is not None:
            self._writer.put(self._path, line)

    def _abandon(self, reason: str) -> None:
        _log.warning("%s ends at chunk %d: %s", self._path, self._chunks, reason)
        self._close()

    def _close(self) -> None:
        if self._writer is not None:
            self._writer.put(self._path, None)
        self._writer = None
        self._pending.clear()
        self._resolved.clear()


UNRECORDED = SessionLog(None, Path(), {}, 0)
"""The log of a session that is not recorded."""


class ControlRecorder:
    """Writes one log per session into a folder.

    Logs contain text typed by users, so only the owner of the process may read them.

    Args:
        folder: the folder; it is created if missing.
        demo: name of the served demo, for the header.
        options: options of the demo, for the header.
        max_bytes: maximum size of a file; a log that exceeds it ends early.

    Raises:
        OSError: the folder cannot be created or written to.
    """

    def __init__(
        self, folder: str | os.PathLike[str], demo: str, options: BaseModel | None, *, max_bytes: int = MAX_BYTES
    ) -> None:
        self._folder = Path(folder)
        self._folder.mkdir(parents=True, exist_ok=True)
        if not os.access(self._folder, os.W_OK):
            raise PermissionError(f"cannot write control logs into {self._folder}: permission denied")
        self._demo = demo
        self._head = {
            "type": "log",
            "version": LOG_VERSION,
            "demo": demo,
            "options": None if options is None else options.model_dump(mode="json"),
        }
        self._max_bytes = max_bytes
        self._logs: dict[str, SessionLog] = {}
        self._writer = LineWriter()

    def begin(self, session_id: str) -> SessionLog:
        """Create the log of a session, before its attach."""
        moment = datetime.now(timezone.utc).strftime("%Y%m%d-%H%M%S")
        path = self._folder / f"{self._demo}-{moment}-{session_id}.jsonl"
        log = self._logs[session_id] = SessionLog(self._writer, path, self._head, self._max_bytes)
        return log

    def outbox(self, maxsize: int) -> Outbox:
        """An outbox that reports everything put into it to the logs, including chunks that it drops later."""
        return _RecordedOutbox(self, maxsize)

    def on_output(self, item: OutboxItem) -> None:
        """The engine puts a chunk or an event into the outbox."""
        log = self._logs.get(item.session_id)
        if log is not None:
            log.on_output(item)

    def end(self, session_id: str) -> None:
        """End the log of a session, whether or not the engine has reported its end."""
        log = self._logs.pop(session_id, None)
        if log is not None:
            log.close()

    def close(self) -> None:
        """Write pending lines for at most one second."""
        self._writer.close()


class _RecordedOutbox(Outbox):
    def __init__(self, recorder: ControlRecorder, maxsize: int) -> None:
        super().__init__(maxsize)
        self._recorder = recorder

    def put_many(self, items: Iterable[OutboxItem]) -> None:
        items = tuple(items)
        for item in items:  # before the put, as the reader of a session's last event ends its log
            self._recorder.on_output(item)
        super().put_many(items)
