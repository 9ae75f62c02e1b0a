"""The queue of chunks and session events out of an engine."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import TypeAlias

from .errors import OutboxClosed, SessionClaimedError
from .inbox import check_session_id
from .messages import Attached, Chunk, Detached, Failed, SessionEvent
from .waiters import Waiter, enlist, next_in, wake

__all__ = ["Outbox", "OutboxItem", "OutboxSession", "OutboxStatistics"]

OutboxItem: TypeAlias = Chunk | SessionEvent

_MAX_RETIRED = 1024  # unclaimed sessions that are over, whose events are kept for a late reader
_MAX_UNREAD_EVENTS = 10_000  # of one unclaimed session


@dataclass(frozen=True)
class OutboxStatistics:
    """State of an outbox.

    Attributes:
        sessions: sessions that have a queue.
        chunks: unread chunks.
        dropped: session id -> chunks dropped, for sessions that lost any.
        dropped_total: chunks dropped, including those of sessions that are no longer kept.
    """

    sessions: int
    chunks: int
    dropped: Mapping[str, int]
    dropped_total: int


class _Stream:
    """One session's queue. Guarded by the outbox's lock.

    Attributes:
        items: unread chunks and events.
        passed: events that ``get()`` has skipped, kept for a later claim.
        chunks: unread chunks.
        dropped: chunks dropped.
        claimed: it has a reader.
        abandoned: its reader was closed, so unread chunks do not keep it.
        live: between ``Attached`` and the end of the session.
        in_ring: it is in the outbox's ring.
        waiters: tasks in ``OutboxSession.get``.
    """

    __slots__ = (
        "session_id",
        "items",
        "passed",
        "chunks",
        "dropped",
        "claimed",
        "abandoned",
        "live",
        "in_ring",
        "waiters",
    )

    def __init__(self, session_id: str) -> None:
        self.session_id = session_id
        self.items: deque[OutboxItem] = deque()
        self.passed: list[OutboxItem] = []
        self.chunks = 0
        self.dropped = 0
        self.claimed = False
        self.abandoned = False
        self.live = False
        self.in_ring = False
        self.waiters: deque[Waiter] = deque()

    def drop_oldest_chunk(self) -> None:
        """Drop and count one chunk; events stay."""
        index = 0
        while not isinstance(self.items[index], Chunk):
            index += 1
        del self.items[index]
        self.chunks -= 1
        self.dropped += 1

    def trim_events(self) -> None:
        """Drop the oldest event beyond the limit of an unclaimed session."""
        if len(self.passed) > _MAX_UNREAD_EVENTS:
            del self.passed[0]
        elif len(self.items) - self.chunks > _MAX_UNREAD_EVENTS:
            index = next(i for i, item in enumerate(self.items) if not isinstance(item, Chunk))
            del self.items[index]


class Outbox:
    """The engine puts chunks and session events in; callers take them out.

    Events of a claimed session are never dropped. Of an unclaimed session the newest 10,000 events are kept, and of
    those that are over, what the 1024 that ended last have left. Usable from any thread and event loop.

    Args:
        maxsize: limit of unread chunks of each session (0: none). Beyond it the session's oldest chunk is dropped and
            counted, so that a slow reader affects its own session only.

    Raises:
        ValueError: ``maxsize`` is not an integer of 0 or more.
    """

    def __init__(self, maxsize: int = 0) -> None:
        if not isinstance(maxsize, int) or isinstance(maxsize, bool) or maxsize < 0:
            raise ValueError(f"maxsize must be an integer of 0 (no bound) or more, got {maxsize!r}")
        self._maxsize = maxsize
        self._lock = threading.RLock()  # reentrant: under it, the last reference to an item may go and run a finalizer
        self._streams: dict[str, _Stream] = {}
        self._ring: deque[_Stream] = deque()  # unclaimed streams with unread chunks, in round-robin order
        self._getters: deque[Waiter] = deque()
        self._retired: dict[str, None] = {}  # insertion-ordered
        self._backlog = 0
        self._dropped = 0
        self._closed = False

    # -- the engine's end

    def put_nowait(self, item: OutboxItem) -> None:
        """Queue a chunk or an event.

        Raises:
            OutboxClosed: the outbox is closed.
            TypeError: ``item`` is neither.
        """
        self.put_many((item,))

    def put_many(self, items: Iterable[OutboxItem]) -> None:
        """Queue several items with one lock and at most one wake-up per event loop; raises as :meth:`put_nowait`."""
        woken: list[Waiter] = []
        try:
            self._put(tuple(items), woken)
        finally:
            if woken:
                wake(woken)

    def _put(self, items: tuple[OutboxItem, ...], woken: list[Waiter]) -> None:
        with self._lock:
            if self._closed:
                raise OutboxClosed("the outbox is closed: nothing more can be put in")
            streams, ring, maxsize = self._streams, self._ring, self._maxsize
            for item in items:
                if not isinstance(item, (Chunk, SessionEvent)):
                    raise TypeError(f"an outbox takes Chunk and SessionEvent, got {type(item).__name__}: {item!r}")
                stream = streams.get(item.session_id)
                if stream is None:
                    stream = streams[item.session_id] = _Stream(item.session_id)
                stream.items.append(item)
                if isinstance(item, Chunk):
                    stream.chunks += 1
                    self._backlog += 1
                    if stream.chunks > maxsize > 0:
                        stream.drop_oldest_chunk()
                        self._backlog -= 1
                        self._dropped += 1
                    if not stream.claimed:
                        if not stream.in_ring:
                            stream.in_ring = True
                            ring.append(stream)
                        if self._getters:
                            next_in(self._getters, woken)
                else:
                    self._on_event(stream, item)
                if stream.waiters:
                    next_in(stream.waiters, woken)

    def close(self) -> None:
        """Refuse further puts. Readers drain what is left and then get :class:`OutboxClosed`. Idempotent."""
        with self._lock:
            self._closed = True
            waiters = [
                *self._getters,
                *(waiter for stream in self._streams.values() for waiter in stream.waiters),
            ]
            self._getters.clear()
            for stream in self._streams.values():
                stream.waiters.clear()
        wake(waiters)

    def _on_event(self, stream: _Stream, event: SessionEvent) -> None:
        if isinstance(event, Attached):
            stream.live = True
        elif isinstance(event, Detached) or (isinstance(event, Failed) and event.fatal):
            stream.live = False
        if not stream.claimed:
            stream.trim_events()
            self._retire_if_over(stream)

    # -- the readers' end: all unclaimed sessions

    async def get(self) -> Chunk:
        """The next chunk of the unclaimed sessions, round-robin. Raises :class:`OutboxClosed` at the end."""
        while True:
            with self._lock:
                chunk = self._take_chunk()
                if chunk is not None:
                    return chunk
                waiter = enlist(self._getters)
            await self._await_turn(waiter, self._getters)

    def get_nowait(self) -> Chunk:
        """Like :meth:`get`; raises ``asyncio.QueueEmpty`` instead of waiting."""
        with self._lock:
            chunk = self._take_chunk()
        if chunk is None:
            raise asyncio.QueueEmpty
        return chunk

    def empty(self) -> bool:
        """Whether :meth:`get` would have to wait."""
        return not self._ring

    @property
    def closed(self) -> bool:
        """Whether :meth:`close` was called."""
        return self._closed

    @property
    def backlog(self) -> int:
        """Unread chunks of all sessions."""
        return self._backlog

    def statistics(self) -> OutboxStatistics:
        """The state now."""
        with self._lock:
            streams = list(self._streams.values())
            dropped = {stream.session_id: stream.dropped for stream in streams if stream.dropped}
            return OutboxStatistics(len(streams), self._backlog, dropped, self._dropped)

    def _take_chunk(self) -> Chunk | None:
        """The next chunk; ``None`` if there is none yet. Raises :class:`OutboxClosed` at the end."""
        ring = self._ring
        if ring:
            stream = ring.popleft()
            item = stream.items.popleft()
            while not isinstance(item, Chunk):
                stream.passed.append(item)
                item = stream.items.popleft()
            stream.chunks -= 1
            self._backlog -= 1
            if stream.chunks:
                ring.append(stream)
            else:
                stream.in_ring = False
                if not stream.live:
                    self._retire_if_over(stream)
            return item
        if self._closed:
            raise OutboxClosed("the serve loop has ended and all chunks were read")
        return None

    def _retire_if_over(self, stream: _Stream) -> None:
        self._retired.pop(stream.session_id, None)
        if stream.live or stream.claimed or (stream.chunks and not stream.abandoned):
            return
        self._retired[stream.session_id] = None
        if len(self._retired) > _MAX_RETIRED:
            oldest = next(iter(self._retired))
            del self._retired[oldest]
            gone = self._streams.pop(oldest)
            self._leave_ring(gone)
            self._backlog -= gone.chunks

    def _leave_ring(self, stream: _Stream) -> None:
        if stream.in_ring:
            stream.in_ring = False
            self._ring.remove(stream)

    # -- the readers' end: one session

    def session(self, session_id: str) -> OutboxSession:
        """Claim one session, before or after its attach; :meth:`get` then no longer serves it.

        Raises:
            SessionClaimedError: the session has a reader; close that one first.
            TypeError: ``session_id`` is not a ``str``.
        """
        check_session_id(session_id)
        with self._lock:
            stream = self._streams.get(session_id)
            if stream is None:
                stream = self._streams[session_id] = _Stream(session_id)
            if stream.claimed:
                raise SessionClaimedError(f"session {session_id!r} is claimed: one reader a session, close() it first")
            stream.claimed = True
            stream.abandoned = False
            self._leave_ring(stream)
            self._retired.pop(session_id, None)
            stream.items.extendleft(reversed(stream.passed))
            stream.passed.clear()
        return OutboxSession(self, stream)

    async def _get_of(self, reader: OutboxSession, stream: _Stream) -> OutboxItem:
        while True:
            with self._lock:
                if (item := self._take_item(reader, stream)) is not None:
                    return item
                waiter = enlist(stream.waiters)
            await self._await_turn(waiter, stream.waiters)

    def _get_nowait_of(self, reader: OutboxSession, stream: _Stream) -> OutboxItem:
        with self._lock:
            if (item := self._take_item(reader, stream)) is not None:
                return item
        raise asyncio.QueueEmpty

    def _take_item(self, reader: OutboxSession, stream: _Stream) -> OutboxItem | None:
        if reader.closed:
            raise OutboxClosed(f"this reader of session {stream.session_id!r} was closed")
        if stream.items:
            item = stream.items.popleft()
            if isinstance(item, Chunk):
                stream.chunks -= 1
                self._backlog -= 1
            return item
        if self._closed:
            raise OutboxClosed(f"the serve loop has ended and session {stream.session_id!r} was read to its end")
        return None

    def _release(self, stream: _Stream) -> None:
        with self._lock:
            stream.claimed = False
            stream.abandoned = True
            readers = list(stream.waiters)
            stream.waiters.clear()
            if stream.chunks:
                stream.in_ring = True
                self._ring.append(stream)
            if not stream.items and not stream.live:
                self._streams.pop(stream.session_id, None)  # read to its end: nothing to keep
            else:
                self._retire_if_over(stream)
            for _ in range(stream.chunks):
                next_in(self._getters, readers)
        wake(readers)

    async def _await_turn(self, waiter: Waiter, line: deque[Waiter]) -> None:
        try:
            await waiter[1]
        except asyncio.CancelledError:
            with self._lock:
                if waiter in line:
                    line.remove(waiter)
                    raise
                woken: list[Waiter] = []
                next_in(line, woken)  # this task was woken for an item: pass the wake-up on
            wake(woken)
            raise


class OutboxSession:
    """One session's chunks and events in order: an async iterator that ends when the outbox is closed and read.

    The claim outlives the session, so that one reader reads a later session of the same id too; :meth:`close` releases
    it. Also a context manager.
    """

    def __init__(self, outbox: Outbox, stream: _Stream) -> None:
        self._outbox = outbox
        self._stream = stream
        self._closed = False

    @property
    def session_id(self) -> str:
        """The session that it reads."""
        return self._stream.session_id

    @property
    def closed(self) -> bool:
        """Whether :meth:`close` was called."""
        return self._closed

    @property
    def dropped(self) -> int:
        """Chunks of this session that were dropped because they were not read in time."""
        return self._stream.dropped

    async def get(self) -> OutboxItem:
        """The next chunk or event. Raises :class:`OutboxClosed` at the end, and when this reader is closed."""
        return await self._outbox._get_of(self, self._stream)

    def get_nowait(self) -> OutboxItem:
        """Like :meth:`get`; raises ``asyncio.QueueEmpty`` instead of waiting."""
        return self._outbox._get_nowait_of(self, self._stream)

    def close(self) -> None:
        """Release the claim; unread items are available to :meth:`Outbox.get` again. Idempotent."""
        if not self._closed:
            self._closed = True
            self._outbox._release(self._stream)

    def __aiter__(self) -> OutboxSession:
        return self

    async def __anext__(self) -> OutboxItem:
        try:
            return await self.get()
        except OutboxClosed as end:
            raise _StreamEnded(*end.args) from None

    def __enter__(self) -> OutboxSession:
        return self

    def __exit__(self, kind: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None) -> None:
        self.close()


class _StreamEnded(OutboxClosed, StopAsyncIteration):
    """Ends ``async for``; an :class:`OutboxClosed` for a direct call of ``anext``."""
