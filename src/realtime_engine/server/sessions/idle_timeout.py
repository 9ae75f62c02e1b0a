"""Idle tracking: a session without viewers is paused, and one without viewers and controls is ended."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from ...core.clock import MONOTONIC, NS_PER_S, Clock

_RELOAD_NS = 5 * NS_PER_S  # time that a page gets to come back after it was closed


class IdleTracker:
    """When a session was last watched or controlled. Pure logic, no timers.

    Args:
        now_ns: the start of the session, in monotonic nanoseconds.
        grace_s: how long frames are still wanted after the last viewer has left, in seconds.
        timeout_s: how long a session without viewers and controls is kept, in seconds.
        reconnect_s: the same for a session without any connection.

    Attributes:
        last_activity_ns: when a client last sent a control message, in monotonic nanoseconds.
        connected: whether the session has a control connection.
    """

    def __init__(self, now_ns: int, *, grace_s: float, timeout_s: float, reconnect_s: float) -> None:
        self.last_activity_ns = now_ns
        self.connected = False
        self._grace_ns = round(grace_s * NS_PER_S)
        self._idle_timeout_ns = round(timeout_s * NS_PER_S)
        self._reconnect_ns = round(reconnect_s * NS_PER_S)
        self._left_ns: int | None = None
        self._is_shared = False
        self._has_guests = False
        self._watched = False
        self._last_view_ns = now_ns

    def on_watched(self, watched: bool, now_ns: int) -> None:
        """The first viewer has joined, or the last one has left."""
        self._watched = watched
        self._last_view_ns = now_ns

    def on_snapshot(self, now_ns: int) -> None:
        """A client requested a single picture."""
        self._last_view_ns = now_ns

    def on_activity(self, now_ns: int) -> None:
        """A client sent a control message."""
        self.last_activity_ns = now_ns
        self._left_ns = None

    def on_guest(self) -> None:
        """A client has joined that only watches: viewers alone do not keep the session from now on."""
        self._has_guests = True

    def on_connected(self, connected: bool, now_ns: int) -> None:
        """The first control connection has been added, or the last one removed."""
        self.connected = connected
        self.last_activity_ns = now_ns

    def on_left(self, now_ns: int) -> None:
        """The owner's page has been closed, or is being reloaded."""
        self._left_ns = now_ns

    def on_shared(self, shared: bool) -> None:
        """Whether another controller than the owner is connected, which keeps a session that its owner has left."""
        self._is_shared = shared

    @property
    def has_left(self) -> bool:
        """Whether the owner's page has been closed since the last activity."""
        return self._left_ns is not None

    def wants_frames(self, now_ns: int) -> bool:
        """Whether the session has viewers, or had one within the grace period."""
        return self._watched or now_ns - self._last_view_ns < self._grace_ns

    def idle_ns(self, now_ns: int) -> int:
        """Nanoseconds since the session was last watched or controlled; 0 while it is attended."""
        return 0 if self._is_attended else now_ns - max(self._last_view_ns, self.last_activity_ns)

    def is_timed_out(self, now_ns: int) -> bool:
        """Whether the session has been idle for the timeout, or its page has been closed and not come back."""
        reload_end_ns = self._reload_end_ns
        if reload_end_ns is not None and now_ns >= reload_end_ns:
            return True
        return self.idle_ns(now_ns) >= self._timeout_ns

    def next_change_ns(self, now_ns: int) -> int | None:
        """When an answer may change without an event; ``None`` if none does."""
        reload_end_ns = self._reload_end_ns
        if self._is_attended:
            return reload_end_ns
        grace_end_ns = self._last_view_ns + self._grace_ns
        timeout_end_ns = max(self._last_view_ns, self.last_activity_ns) + self._timeout_ns
        if reload_end_ns is not None:
            timeout_end_ns = min(timeout_end_ns, reload_end_ns)
        return grace_end_ns if now_ns < grace_end_ns < timeout_end_ns else timeout_end_ns

    @property
    def _reload_end_ns(self) -> int | None:
        """When a session whose page has been closed ends; ``None`` if it does not."""
        return None if self._left_ns is None or self._is_shared else self._left_ns + _RELOAD_NS

    @property
    def _is_attended(self) -> bool:
        return self._watched and (self.connected or not self._has_guests)

    @property
    def _timeout_ns(self) -> int:
        return self._idle_timeout_ns if self.connected else self._reconnect_ns


class IdleTimer:
    """Runs an :class:`IdleTracker` on the event loop, from :meth:`start` to :meth:`close`.

    Args:
        grace_s: as of the tracker.
        timeout_s: as of the tracker.
        reconnect_s: as of the tracker.
        on_wanted: called with whether frames are wanted, whenever that may have changed.
        on_timeout: called once the session has been idle for the timeout.
        clock: the current time.
    """

    def __init__(
        self,
        *,
        grace_s: float,
        timeout_s: float,
        reconnect_s: float,
        on_wanted: Callable[[bool], None],
        on_timeout: Callable[[], None],
        clock: Clock = MONOTONIC,
    ) -> None:
        self._clock = clock
        self._tracker = IdleTracker(clock.now_ns(), grace_s=grace_s, timeout_s=timeout_s, reconnect_s=reconnect_s)
        self._on_wanted = on_wanted
        self._on_timeout = on_timeout
        self._running = False
        self._timer: asyncio.TimerHandle | None = None

    @property
    def idle_s(self) -> float:
        """Seconds since the session was last watched or controlled; 0 while it is watched."""
        return self._tracker.idle_ns(self._clock.now_ns()) / NS_PER_S

    @property
    def has_left(self) -> bool:
        """Whether the owner's page has been closed since the last activity."""
        return self._tracker.has_left

    @property
    def is_connected(self) -> bool:
        """Whether the session has a control connection of a client that controls it."""
        return self._tracker.connected

    @property
    def last_activity_ns(self) -> int:
        """When a client last sent a control message, in monotonic nanoseconds."""
        return self._tracker.last_activity_ns

    def start(self) -> None:
        """Apply the tracker from now on."""
        self._running = True
        self._review()

    def on_watched(self, watched: bool) -> None:
        """The first viewer has joined, or the last one has left."""
        self._tracker.on_watched(watched, self._clock.now_ns())
        self._review()

    def on_snapshot(self) -> None:
        """A client requested a single picture."""
        self._tracker.on_snapshot(self._clock.now_ns())
        self._review()

    def on_activity(self) -> None:
        """A client sent a control message, or a frame of its video."""
        self._tracker.on_activity(self._clock.now_ns())

    def on_connected(self, connected: bool) -> None:
        """The first control connection has been added, or the last one removed."""
        self._tracker.on_connected(connected, self._clock.now_ns())
        self._review()

    def on_guest(self) -> None:
        """A client has joined that only watches."""
        self._tracker.on_guest()
        self._review()

    def on_shared(self, shared: bool) -> None:
        """Whether another controller than the owner is connected."""
        self._tracker.on_shared(shared)
        self._review()

    def on_left(self) -> None:
        """The owner's page has been closed, or is being reloaded: end the session unless it comes back."""
        self._tracker.on_left(self._clock.now_ns())
        self._review()

    def close(self) -> None:
        """Call nothing any more."""
        self._running = False
        self._cancel()

    def _review(self) -> None:
        self._cancel()
        if not self._running:
            return
        now_ns = self._clock.now_ns()
        if self._tracker.is_timed_out(now_ns):
            self.close()
            self._on_timeout()
            return
        self._on_wanted(self._tracker.wants_frames(now_ns))
        change_ns = self._tracker.next_change_ns(now_ns)
        if change_ns is not None:
            self._timer = asyncio.get_running_loop().call_later((change_ns - now_ns) / NS_PER_S, self._review)

    def _cancel(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
