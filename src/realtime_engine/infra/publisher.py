"""Latest-frame fan-out: each viewer gets the newest picture that it has not seen, independently of other viewers."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Generic, Protocol, TypeVar

from ..core.errors import RealtimeEngineError
from ..core.waiters import call_soon
from .frame import Frame, FrameId

logger = logging.getLogger(__name__)


class SubscriptionEnded(RealtimeEngineError):
    """A subscription has ended. Base of the two ways in which it ends."""


class PublisherClosed(SubscriptionEnded):
    """The publisher was closed, and its last picture was delivered."""


class SubscriptionClosed(SubscriptionEnded):
    """The subscription itself was closed."""


class Identified(Protocol):
    """A picture, encoded or not, with an identity."""

    @property
    def id(self) -> FrameId:
        """The identity of its frame."""


T = TypeVar("T", bound=Identified)


@dataclass(frozen=True)
class PublisherStatistics:
    """Counts since the publisher was made.

    Attributes:
        published: pictures accepted.
        refused: pictures of an epoch that had ended.
        viewers: open subscriptions.
        seen: pictures delivered, over all viewers so far.
        dropped: pictures skipped for newer ones, over all viewers so far.
    """

    published: int
    refused: int
    viewers: int
    seen: int
    dropped: int


class LatestPublisher(Generic[T]):
    """Fans the pictures of one session out to its viewers; it holds one picture and no queue.

    It belongs to the event loop on which it was made: :meth:`subscribe` and the subscriptions are used there, all other
    methods from any thread.

    Args:
        on_watched: called on the loop with ``True`` when the first viewer subscribes, and with ``False`` when the last
            one closes its subscription. An exception is logged.

    Raises:
        RuntimeError: there is no running event loop.
    """

    def __init__(self, on_watched: Callable[[bool], object] | None = None) -> None:
        self._loop = asyncio.get_running_loop()
        self._on_watched = on_watched
        self._lock = threading.Lock()
        self._subscriptions: set[Subscription[T]] = set()
        self._latest: T | None = None
        self._epoch = 0
        self._closed = False
        self._published = self._refused = 0
        self._seen_before = self._dropped_before = 0  # by viewers that have left

    @property
    def latest(self) -> T | None:
        """The newest picture of the present epoch; ``None`` before the first."""
        latest = self._latest
        return latest if latest is not None and latest.id.epoch >= self.epoch else None

    @property
    def epoch(self) -> int:
        """The newest epoch; pictures of older ones are refused."""
        return self._epoch

    @property
    def viewers(self) -> int:
        """The number of open subscriptions."""
        return len(self._subscriptions)

    @property
    def closed(self) -> bool:
        """Whether :meth:`close` was called."""
        return self._closed

    def publish(self, picture: T) -> bool:
        """Make this the newest picture; false if it is refused: its epoch has ended, or the publisher is closed."""
        with self._lock:
            if self._closed:
                return False
            epoch = picture.id.epoch
            if epoch < self.epoch:
                self._refused += 1
                return False
            self._epoch = epoch
            self._latest = picture
            self._published += 1
            watched = bool(self._subscriptions)
        if watched:
            self._wake_viewers()
        return True

    def begin_epoch(self, epoch: int) -> None:
        """Start an epoch, as after a reset: pictures of older ones are not delivered any more."""
        with self._lock:
            if epoch > self._epoch:
                self._epoch = epoch
                self._latest = None

    def clear(self) -> None:
        """Forget the newest picture; new viewers wait for the next one."""
        with self._lock:
            self._latest = None

    def subscribe(self, on_update: Callable[[], object] | None = None) -> Subscription[T]:
        """Add a viewer. Its first picture is the newest one, available at once. Call it on the publisher's loop.

        Args:
            on_update: called on the loop after each publish and after :meth:`close`, for a reader that polls
                :meth:`Subscription.next_nowait` because it waits for other things too. It must neither block nor raise.

        Raises:
            PublisherClosed: the publisher is closed.
        """
        with self._lock:
            if self._closed:
                raise PublisherClosed("the publisher is closed: its session has ended")
            subscription = Subscription(self, self._published - (self.latest is not None), on_update)
            self._subscriptions.add(subscription)
            first = len(self._subscriptions) == 1
        if first:
            self._report_watched(True)
        return subscription

    def close(self) -> None:
        """End the publisher. Viewers get the last picture, if unseen, then :class:`PublisherClosed`. Idempotent."""
        with self._lock:
            self._closed = True
        self._wake_viewers()

    def statistics(self) -> PublisherStatistics:
        """The counts so far."""
        with self._lock:
            return PublisherStatistics(
                published=self._published,
                refused=self._refused,
                viewers=len(self._subscriptions),
                seen=self._seen_before + sum(viewer.seen for viewer in self._subscriptions),
                dropped=self._dropped_before + sum(viewer.dropped for viewer in self._subscriptions),
            )

    def _wake_viewers(self) -> None:
        if _running_loop() is self._loop:
            self._wake_here()
        else:
            call_soon(self._loop, self._wake_here)

    def _wake_here(self) -> None:
        for subscription in tuple(self._subscriptions):
            subscription._update()

    def _take(self, subscription: Subscription[T]) -> T | None:
        with self._lock:
            latest = self.latest
            if latest is not None and subscription._position < self._published:
                subscription.dropped += self._published - subscription._position - 1
                subscription.seen += 1
                subscription._position = self._published
                return latest
            if self._closed:
                raise PublisherClosed("the publisher is closed: its session has ended")
            return None

    def _rewind(self, subscription: Subscription[T]) -> None:
        with self._lock:
            subscription._position = min(subscription._position, self._published - 1)

    def _release(self, subscription: Subscription[T]) -> None:
        with self._lock:
            self._subscriptions.discard(subscription)
            self._seen_before += subscription.seen
            self._dropped_before += subscription.dropped
            last = not self._subscriptions
        if last:
            self._report_watched(False)

    def _report_watched(self, watched: bool) -> None:
        if self._on_watched is None:
            return
        try:
            self._on_watched(watched)
        except Exception:
            logger.exception("on_watched(%s) of a publisher failed", watched)


class Subscription(Generic[T]):
    """One viewer of a publisher. Also a context manager, and an async iterator that ends with the publisher.

    Attributes:
        seen: pictures delivered.
        dropped: pictures skipped for newer ones.
    """

    def __init__(
        self, publisher: LatestPublisher[T], position: int, on_update: Callable[[], object] | None = None
    ) -> None:
        self._publisher = publisher
        self._on_update = on_update
        self._position = position  # count of pictures delivered or skipped; set by the publisher
        self._waiter: asyncio.Future[None] | None = None
        self._closed = False
        self.seen = 0
        self.dropped = 0

    @property
    def closed(self) -> bool:
        """Whether the subscription was closed."""
        return self._closed

    def next_nowait(self) -> T | None:
        """The newest unseen picture; ``None`` if there is none.

        Raises:
            PublisherClosed: the publisher is closed, and its last picture was delivered.
            SubscriptionClosed: this subscription was closed.
        """
        if self._closed:
            raise SubscriptionClosed("this subscription was closed")
        return self._publisher._take(self)

    async def next(self, timeout_s: float | None = None) -> T:
        """The newest unseen picture, waiting for one. One task at a time may wait.

        Raises:
            PublisherClosed: the publisher is closed, and its last picture was delivered.
            SubscriptionClosed: this subscription was closed, before or during the wait.
            TimeoutError: there was no picture within ``timeout_s`` seconds.
            RuntimeError: another task is waiting on this subscription.
        """
        if self._waiter is not None:
            raise RuntimeError("another task is waiting on this subscription: subscribe once for each viewer")
        expiry = _Expiry(self._wake, timeout_s) if timeout_s is not None else None
        try:
            while (picture := self.next_nowait()) is None:
                if expiry is not None:
                    expiry.check()
                self._waiter = asyncio.get_running_loop().create_future()
                await self._waiter
            return picture
        finally:
            self._waiter = None
            if expiry is not None:
                expiry.cancel()

    def rewind(self) -> None:
        """Deliver the newest picture once more, unless the publisher has forgotten it."""
        self._publisher._rewind(self)

    def close(self) -> None:
        """Unsubscribe. A task waiting in :meth:`next` gets :class:`SubscriptionClosed`. Idempotent."""
        if not self._closed:
            self._closed = True
            self._wake()
            self._publisher._release(self)

    def __aiter__(self) -> Subscription[T]:
        return self

    async def __anext__(self) -> T:
        try:
            return await self.next()
        except SubscriptionEnded:
            raise StopAsyncIteration from None

    def __enter__(self) -> Subscription[T]:
        return self

    def __exit__(self, kind: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None) -> None:
        self.close()

    def _update(self) -> None:
        """The publisher has a new picture, or was closed."""
        self._wake()
        if self._on_update is not None:
            self._on_update()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


class FramePublisher(LatestPublisher[Frame]):
    """The frames of one session."""


FrameSubscription = Subscription[Frame]


class _Expiry:
    """A timer for one wait. Its callback decides, not the clock, since loops may call it slightly early."""

    def __init__(self, wake: Callable[[], None], timeout_s: float) -> None:
        self._wake = wake
        self._timeout_s = timeout_s
        self._expired = False
        self._timer = asyncio.get_running_loop().call_later(timeout_s, self._expire)

    def check(self) -> None:
        if self._expired:
            raise TimeoutError(f"no new picture within {self._timeout_s} s")

    def cancel(self) -> None:
        self._timer.cancel()

    def _expire(self) -> None:
        self._expired = True
        self._wake()


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
