"""The queue of messages into an engine."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence

from .clock import MONOTONIC, Clock
from .messages import Action, Attach, Detach, InboxMsg, Reset, SetActive
from .values import snapshot
from .waiters import call_soon

__all__ = ["Inbox"]


class Inbox:
    """Callers put messages in; the engine drains them at chunk boundaries.

    Unbounded, keeps the order of each sender, usable from any thread and event loop.

    Args:
        clock: time of the arrival stamps.
    """

    def __init__(self, *, clock: Clock = MONOTONIC) -> None:
        self._clock = clock
        self._messages: deque[tuple[int, InboxMsg]] = deque()
        self._listeners: tuple[Callable[[], None], ...] = ()
        self._listeners_lock = threading.Lock()

    def put_nowait(self, msg: InboxMsg) -> None:
        """Queue a snapshot of ``msg``.

        Raises:
            TypeError: ``msg`` is not an inbox message, or a field has the wrong type.
            ValueError: the conditioning has the reserved key ``events``, or a value refers to itself.
        """
        checked = _checked(msg)
        self._messages.append((self._clock.now_ns(), checked))
        for listener in self._listeners:
            listener()

    def drain_nowait(self) -> list[InboxMsg]:
        """Remove and return all messages, oldest first."""
        return [msg for _, msg in self.drain_stamped()]

    def drain_stamped(self) -> list[tuple[int, InboxMsg]]:
        """Like :meth:`drain_nowait`, each message after its time of arrival in monotonic nanoseconds."""
        messages = self._messages
        drained: list[tuple[int, InboxMsg]] = []
        with contextlib.suppress(IndexError):
            while messages:
                drained.append(messages.popleft())
        return drained

    def empty(self) -> bool:
        """Whether no message is queued."""
        return not self._messages

    @contextlib.contextmanager
    def listening(self, listener: Callable[[], None]) -> Iterator[None]:
        """While the context is open, call ``listener`` after each put, on that thread. It must not block or raise."""
        with self._listeners_lock:
            self._listeners = (*self._listeners, listener)
        try:
            yield
        finally:
            with self._listeners_lock:
                self._listeners = tuple(other for other in self._listeners if other is not listener)

    async def wait(self) -> None:
        """Return once a message is queued; for engines that own their loop."""
        arrived = asyncio.Event()
        loop = asyncio.get_running_loop()
        with self.listening(lambda: call_soon(loop, arrived.set)):
            while not self._messages:
                arrived.clear()
                if not self._messages:
                    await arrived.wait()


def _checked(msg: InboxMsg) -> InboxMsg:
    if not isinstance(msg, (Attach, Detach, Reset, Action, SetActive)):
        raise TypeError(f"an inbox takes Attach, Detach, Reset, Action or SetActive, got {type(msg).__name__}: {msg!r}")
    check_session_id(msg.session_id)
    if isinstance(msg, Action):
        return _checked_action(msg)
    if isinstance(msg, Detach):
        return Detach(msg.session_id)
    if isinstance(msg, SetActive):
        if not isinstance(msg.active, bool):
            raise TypeError(f"SetActive.active must be a bool, got {msg.active!r}")
        return SetActive(msg.session_id, msg.active)
    _check_mapping(msg, "context", msg.context)
    kind = Attach if isinstance(msg, Attach) else Reset
    return kind(msg.session_id, snapshot(msg.context))


def _checked_action(msg: Action) -> Action:
    _check_mapping(msg, "conditioning", msg.conditioning)
    if "events" in msg.conditioning:
        raise ValueError('conditioning key "events" is reserved: pass edges as Action(..., events=[...])')
    if not isinstance(msg.events, Sequence) or isinstance(msg.events, (str, bytes)):
        raise TypeError(f"Action.events must be a list or tuple of edges, got {msg.events!r}")
    events = tuple(snapshot(list(msg.events)))
    action_id = snapshot(msg.action_id) if isinstance(msg.action_id, (Mapping, list, set)) else msg.action_id
    return Action(msg.session_id, snapshot(msg.conditioning), events, action_id)


def check_session_id(session_id: object) -> None:
    """Raise ``TypeError`` unless ``session_id`` is a ``str``."""
    if not isinstance(session_id, str):
        raise TypeError(f"session_id must be a str, got {type(session_id).__name__}: {session_id!r}")


def _check_mapping(msg: InboxMsg, name: str, value: object) -> None:
    if not isinstance(value, Mapping):
        raise TypeError(f"{type(msg).__name__}.{name} must be a mapping, got {type(value).__name__}: {value!r}")
