"""Records what sessions are told, and before which of their chunks it counted, while they are served."""

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

MAX_BYTES = 64 * 1024 * 1024  # of one session's file
_MAX_WAITING = 4096  # lines that wait for a chunk
_NOT_YET = math.inf


@dataclass(slots=True)
class _Waiting:
    """A line whose chunk is not known yet; it counts once an action received at or after ``since_ns`` does."""

    t: float
    message: Mapping[str, Any]
    since_ns: float


class SessionLog:
    """One session's log. Notes come from the session's event loop, :meth:`took` from the engine's thread.

    The engine says with each chunk when the newest action in it was received. Actions are received in the order in
    which they are put, each after :meth:`acting` was called for it: so the chunk tells which of them count.
    """

    def __init__(self, writer: LineWriter | None, path: Path, head: Mapping[str, Any], most_bytes: int) -> None:
        self._writer = writer
        self._path = path
        self._room = most_bytes
        self._lock = threading.Lock()
        self._begin_ns = MONOTONIC.now_ns()
        self._waiting: deque[_Waiting] = deque()
        self._settled: deque[_Waiting] = deque()  # of these it is known that the next chunk shows them
        self._chunks = 0
        if writer is not None:
            self._write(0.0, 0, head)

    def attached(self, fields: Mapping[str, Any], drawn: Mapping[str, Any]) -> None:
        """The session begins with these fields, as they came, and these made by default factories."""
        self._note({"type": "attach", "fields": dict(fields), "drawn": dict(drawn)}, 0)

    def told(self, message: BaseModel) -> None:
        """A message of the controls protocol was accepted; an action follows."""
        if self._writer is not None:
            self._note(message.model_dump(mode="json", exclude_unset=True), _NOT_YET)

    def noted(self, kind: str, **more: Any) -> None:
        """One of the log's own lines."""
        self._note({"type": kind, **more}, _NOT_YET)

    def acting(self) -> None:
        """An action is about to be put, which shows everything noted so far."""
        if self._writer is None:
            return
        now_ns = MONOTONIC.now_ns()
        with self._lock:
            for waiting in reversed(self._waiting):
                if waiting.since_ns != _NOT_YET:
                    break
                if waiting.message["type"] != "reset":  # which the engine answers by itself
                    waiting.since_ns = now_ns

    def begun(self, accepted: bool) -> None:
        """The engine has answered a reset."""
        if not accepted:
            with self._lock:
                self._settle_resets(everything=True)
        self.noted("begun", accepted=accepted)

    def took(self, item: OutboxItem) -> None:
        """The engine is putting something out."""
        with self._lock:
            if isinstance(item, Chunk):
                self._count(item)
            elif isinstance(item, ResetDone):
                self._settle_resets(everything=False)
            elif isinstance(item, Detached) or (isinstance(item, Failed) and item.fatal):
                self._end()

    def close(self) -> None:
        """Nothing more is written. Idempotent."""
        with self._lock:
            self._close()

    def _note(self, message: Mapping[str, Any], since_ns: float) -> None:
        if self._writer is None:
            return
        with self._lock:
            self._waiting.append(_Waiting((MONOTONIC.now_ns() - self._begin_ns) / NS_PER_S, message, since_ns))
            if len(self._waiting) > _MAX_WAITING:
                self._give_up(f"{_MAX_WAITING} messages came without a chunk")

    def _count(self, chunk: Chunk) -> None:
        self._chunks = chunk.seq + 1
        received_ns = chunk.stamps.action_received or 0
        while self._waiting and self._waiting[0].since_ns <= received_ns:
            self._settled.append(self._waiting.popleft())
        while self._settled and self._writer is not None:
            settled = self._settled.popleft()
            self._write(settled.t, chunk.seq, settled.message)

    def _settle_resets(self, *, everything: bool) -> None:
        """The engine has come as far as the first reset that waits, or past all of them."""
        resets = [at for at, waiting in enumerate(self._waiting) if waiting.message["type"] == "reset"]
        for _ in range((resets[-1 if everything else 0] + 1) if resets else 0):
            self._settled.append(self._waiting.popleft())

    def _end(self) -> None:
        if self._writer is not None:
            self._write((MONOTONIC.now_ns() - self._begin_ns) / NS_PER_S, self._chunks, {"type": "end"})
            self._close()

    def _write(self, t: float, chunk: int, message: Mapping[str, Any]) -> None:
        line = line_of(t, chunk, message)
        self._room -= len(line)
        if self._room < 0:
            self._give_up("it is as large as it may be")
        elif self._writer is not None:
            self._writer.put(self._path, line)

    def _give_up(self, reason: str) -> None:
        _log.warning("%s ends at chunk %d: %s", self._path, self._chunks, reason)
        self._close()

    def _close(self) -> None:
        if self._writer is not None:
            self._writer.put(self._path, None)
        self._writer = None
        self._waiting.clear()
        self._settled.clear()


UNRECORDED = SessionLog(None, Path(), {}, 0)
"""The log of a session that nobody records."""


class ControlRecorder:
    """Writes one log a session into a folder, which is made if need be. Files hold what people typed: only the owner of
    the process may read them.

    Args:
        folder: where they go.
        demo, options: what is served, for the head of each log.
        most_bytes: size of a file beyond which it ends early.

    Raises:
        OSError: the folder cannot be made or written to.
    """

    def __init__(
        self, folder: str | os.PathLike[str], demo: str, options: BaseModel | None, *, most_bytes: int = MAX_BYTES
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
        self._most_bytes = most_bytes
        self._logs: dict[str, SessionLog] = {}
        self._writer = LineWriter()

    def begin(self, session_id: str) -> SessionLog:
        """The log of a session, before its attach."""
        moment = datetime.now(timezone.utc).strftime("%Y%m%d-%H%M%S")
        path = self._folder / f"{self._demo}-{moment}-{session_id}.jsonl"
        log = self._logs[session_id] = SessionLog(self._writer, path, self._head, self._most_bytes)
        return log

    def outbox(self, maxsize: int) -> Outbox:
        """An outbox that tells the logs of all that is put into it, also of chunks that it drops later."""
        return _HeardOutbox(self, maxsize)

    def took(self, item: OutboxItem) -> None:
        """The engine is putting something out."""
        log = self._logs.get(item.session_id)
        if log is not None:
            log.took(item)

    def forget(self, session_id: str) -> None:
        """The session is over, whether the engine has said so or not."""
        log = self._logs.pop(session_id, None)
        if log is not None:
            log.close()

    def close(self) -> None:
        """Write what waits to be written, for a second at most."""
        self._writer.close()


class _HeardOutbox(Outbox):
    def __init__(self, recorder: ControlRecorder, maxsize: int) -> None:
        super().__init__(maxsize)
        self._recorder = recorder

    def put_many(self, items: Iterable[OutboxItem]) -> None:
        items = tuple(items)
        for item in items:  # first, for whoever reads a session's last word lets go of its log
            self._recorder.took(item)
        super().put_many(items)
