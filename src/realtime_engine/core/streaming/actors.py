"""Actors with a thread and a mailbox: for handlers of one invocation, and of a batch."""

from __future__ import annotations

import abc
import concurrent.futures
import contextlib
import logging
import queue
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from functools import partial
from typing import Any, TypeAlias

from ..errors import reason_of
from .errors import InvalidStageOutputError, StreamingActorBusyError, StreamingActorFailedError
from .specs import check_callable, check_count, check_seconds
from .types import (
    StreamingActorHealth,
    StreamingActorState,
    StreamingSessionCloseReason,
    StreamingSessionContext,
    StreamingStageInvocation,
)

__all__ = [
    "BatchedStageActor",
    "Task",
    "LocalStageActor",
    "Message",
    "SessionCloser",
    "StageHandler",
    "ThreadActor",
    "Work",
]


logger = logging.getLogger(__name__)

StageHandler = Callable[[StreamingStageInvocation], Mapping[str, object]]
SessionCloser = Callable[[StreamingSessionContext, StreamingSessionCloseReason], None]


class Work:
    """An invocation in an actor. ``completed`` is guarded by the actor's lock."""

    __slots__ = ("invocation", "future", "completed")

    def __init__(self, invocation: StreamingStageInvocation) -> None:
        self.invocation = invocation
        self.future: Future[Mapping[str, object]] = Future()
        self.completed = False


class Task:
    """A function that runs on the actor's thread, in order with the invocations."""

    __slots__ = ("run", "future")

    def __init__(self, run: Callable[[], None]) -> None:
        self.run = run
        self.future: Future[None] = Future()


Message = Work | Task | None  # ``None`` ends the thread


class ThreadActor(abc.ABC):
    """Base of actors with one thread and a bounded mailbox.

    At most ``in_service`` invocations run at a time and ``mailbox_capacity`` wait; tasks are not limited. No exception
    of a handler ends the thread. :class:`StreamingActorFailedError` from a handler means that the stage itself is lost:
    the actor has failed, and all invocations that wait fail with it.

    Args:
        mailbox_capacity: limit of waiting invocations.
        in_service: limit of running invocations.
        name: of the thread, and in errors.
        session_closer: releases the state of a session, on the actor's thread.

    Attributes:
        backend_check_s: interval of :meth:`lost_backend` while the actor is idle; ``None``: never.

    Raises:
        ValueError: naming the argument.
    """

    backend_check_s: float | None = None

    def __init__(self, mailbox_capacity: int, in_service: int, name: str, session_closer: SessionCloser | None) -> None:
        check_count("mailbox_capacity", mailbox_capacity)
        if session_closer is not None:
            check_callable("session_closer", session_closer)
        self._max_pending = mailbox_capacity + in_service
        self._name = name
        self._session_closer = session_closer
        self._lock = threading.Lock()
        self._mailbox: queue.SimpleQueue[Message] = queue.SimpleQueue()
        self._requeued: list[Message] = []  # taken from the mailbox before their turn; used by the actor's thread
        self._in_service: tuple[Work, ...] = ()
        self._pending = 0
        self._closing: dict[StreamingSessionContext, Future[None]] = {}
        self._state = StreamingActorState.RUNNING
        self._failure_reason: str | None = None
        self._failure_callbacks: list[Callable[[str], None]] = []
        self._abandoned = False
        self._thread = threading.Thread(target=self._main, name=name, daemon=True)
        self._thread.start()

    # -- any thread

    def submit(self, invocation: StreamingStageInvocation) -> Future[Mapping[str, object]]:
        """Queue one invocation without waiting.

        Raises:
            StreamingActorBusyError: the mailbox is full; nothing was queued.
            StreamingActorFailedError: it is closed or has failed.
        """
        work = Work(invocation)
        with self._lock:
            self._check_running()
            if self._pending >= self._max_pending:
                raise StreamingActorBusyError(f"the mailbox of {self._name!r} is full: {self._pending} are pending")
            self._pending += 1
            self._mailbox.put(work)
        return work.future

    def health(self) -> StreamingActorHealth:
        """The state now, without waiting."""
        with self._lock:
            return StreamingActorHealth(self._state, self._pending, self._failure_reason)

    def add_failure_callback(self, callback: Callable[[str], None]) -> None:
        """Call ``callback`` with the reason, once and on any thread, when the actor fails; at once if it has failed."""
        with self._lock:
            reason = self._failure_reason
            if reason is None:
                self._failure_callbacks.append(callback)
        if reason is not None:
            callback(reason)

    def barrier(self, timeout: float = 5.0) -> None:
        """Return when everything submitted so far is completed.

        Raises:
            TimeoutError: after ``timeout`` seconds.
            StreamingActorFailedError: it is closed.
        """
        with self._lock:
            reached = self._send(Task(lambda: None))
        self._await(reached, timeout, f"actor {self._name!r} has not completed its mailbox")

    def close_session(
        self, context: StreamingSessionContext, reason: StreamingSessionCloseReason, timeout: float = 5.0
    ) -> None:
        """Run the session closer on the actor's thread, after the work submitted so far.

        A second call for the same session waits for the first: the closer runs once.

        Raises:
            TimeoutError: after ``timeout`` seconds; the closer still runs later.
            StreamingActorFailedError: it is closed.
            BaseException: raised by the closer.
        """
        closer = self._session_closer
        with self._lock:
            closed = self._closing.get(context)
            if closed is None:
                run = (lambda: None) if closer is None else (lambda: closer(context, reason))
                closed = self._closing[context] = self._send(Task(run))
                closed.add_done_callback(lambda _: self._forget_closing(context))
        self._await(closed, timeout, f"actor {self._name!r} has not released {context}")

    def close(self, timeout: float = 5.0) -> None:
        """Accept no more work, complete what was submitted, and end.

        After ``timeout`` seconds all incomplete work fails with :class:`StreamingActorFailedError`. A stuck handler
        keeps its thread, which ends when the handler returns.
        """
        with self._lock:
            if self._state is not StreamingActorState.CLOSED:
                self._state = StreamingActorState.CLOSED
                self._mailbox.put(None)
        if threading.current_thread() is self._thread:
            return
        self._thread.join(max(timeout, 0.0))
        if self._thread.is_alive():
            self._abandon(f"{self._name!r} was closed, and its handler did not return in {timeout} s")

    def _check_running(self) -> None:
        if self._state is StreamingActorState.CLOSED:
            raise StreamingActorFailedError(f"{self._name!r} is closed")
        if self._state is StreamingActorState.FAILED:
            raise StreamingActorFailedError(f"{self._name!r} has failed: {self._failure_reason}")

    def _send(self, task: Task) -> Future[None]:
        if self._state is StreamingActorState.CLOSED:
            raise StreamingActorFailedError(f"{self._name!r} is closed")
        self._mailbox.put(task)
        return task.future

    def _await(self, future: Future[None], timeout: float, what: str) -> None:
        if threading.current_thread() is self._thread:
            raise RuntimeError(f"{self._name!r} cannot wait for itself: call this from another thread")
        if not concurrent.futures.wait((future,), timeout).done:
            raise TimeoutError(f"{what} within {timeout} s")
        future.result()

    def _forget_closing(self, context: StreamingSessionContext) -> None:
        # Without the lock, which may be held by the thread that adds this callback to a finished future.
        self._closing.pop(context, None)

    def _abandon(self, reason: str) -> None:
        self._abandoned = True
        error = StreamingActorFailedError(reason)
        for work in self._in_service:
            self.complete(work, error=error)
        for message in tuple(self._requeued):
            self._refuse(message, error)
        with contextlib.suppress(queue.Empty):
            while True:
                self._refuse(self._mailbox.get_nowait(), error)
        self._mailbox.put(None)  # this may have removed the message that ends the thread

    # -- the actor's thread

    @abc.abstractmethod
    def run(self, work: Work) -> None:
        """Complete ``work``, and the work of the mailbox that is run together with it."""

    def lost_backend(self) -> str | None:
        """Why the backend of the handler has died; ``None`` while it is alive. Checked while the actor is idle."""
        return None

    def _main(self) -> None:
        while self._handle(self._next_message()):
            pass

    def _next_message(self) -> Message:
        if self._requeued:
            return self._requeued.pop()
        while self.backend_check_s is not None and self._failure_reason is None:
            try:
                return self._mailbox.get(timeout=self.backend_check_s)
            except queue.Empty:
                reason = self.lost_backend()
                if reason is not None:
                    self._fail(reason)
        return self._mailbox.get()

    def _handle(self, message: Message) -> bool:
        """Handle one message, without a reference to it afterwards. False if it was the last."""
        if message is None:
            return False
        if self._abandoned:
            self._refuse(message, StreamingActorFailedError(f"{self._name!r} is closed"))
        elif isinstance(message, Task):
            self._run_task(message)
        elif self._failure_reason is not None:
            self._refuse(message, StreamingActorFailedError(f"{self._name!r} has failed: {self._failure_reason}"))
        else:
            self.run(message)
            self._in_service = ()
        return True

    def _run_task(self, task: Task) -> None:
        try:
            task.run()
        except BaseException as error:  # raised by the caller that waits for it
            self._resolve(task.future, None, error)
        else:
            self._resolve(task.future, None)

    def start(self, work: Work) -> bool:
        """Begin an invocation; false if it was cancelled while it waited."""
        if self._abandoned:
            self._refuse(work, StreamingActorFailedError(f"{self._name!r} is closed"))
            return False
        if not work.future.set_running_or_notify_cancel():
            self._claim(work)
            return False
        work.invocation = work.invocation.begin()
        return True

    def mark_in_service(self, works: tuple[Work, ...]) -> None:
        """Declare what is being run, so that a close that times out can fail it."""
        self._in_service = works

    def next_work(self, timeout_s: float) -> Work | None:
        """The next message, if it is work and comes within the time; any other message is kept for later."""
        if self._requeued:
            return None
        try:
            message = self._mailbox.get(timeout=timeout_s) if timeout_s > 0 else self._mailbox.get_nowait()
        except queue.Empty:
            return None
        if isinstance(message, Work):
            return message
        self._requeued.append(message)
        return None

    def requeue(self, work: Work) -> None:
        """Run work that :meth:`next_work` returned after the current batch."""
        self._requeued.append(work)

    def complete(self, work: Work, outputs: object = None, error: BaseException | None = None) -> None:
        """Complete work with the outputs or the exception of its handler, unless it is completed already."""
        if error is None and not isinstance(outputs, Mapping):
            error = InvalidStageOutputError(
                f"{self._name!r} must return a mapping of artifacts to values, got {outputs!r}"
            )
        if not self._claim(work):
            return
        if isinstance(error, StreamingActorFailedError):
            self._fail(reason_of(error), before_callbacks=partial(self._resolve, work.future, outputs, error))
        else:
            self._resolve(work.future, outputs, error)

    def _fail(self, reason: str, before_callbacks: Callable[[], None] = lambda: None) -> None:
        with self._lock:
            callbacks: list[Callable[[str], None]] = []
            if self._state is StreamingActorState.RUNNING:
                self._state, self._failure_reason = StreamingActorState.FAILED, reason
                callbacks, self._failure_callbacks = self._failure_callbacks, []
        before_callbacks()
        for callback in callbacks:
            try:
                callback(reason)
            except Exception:
                logger.exception("a failure callback of %r failed", self._name)

    def _claim(self, work: Work) -> bool:
        """Mark work as completed; true for the one caller that has to set its future."""
        with self._lock:
            if work.completed:
                return False
            work.completed = True
            self._pending -= 1
            return True

    def _refuse(self, message: Message, error: StreamingActorFailedError) -> None:
        if message is None:
            return
        is_open = isinstance(message, Task) or self._claim(message) and message.future.set_running_or_notify_cancel()
        if is_open:
            self._resolve(message.future, None, error)

    def _resolve(self, future: Future[Any], outputs: object, error: BaseException | None = None) -> None:
        try:
            if error is not None:
                future.set_exception(error)
            else:
                future.set_result(outputs)
        except concurrent.futures.InvalidStateError:
            logger.debug("%r: a future was completed by another thread", self._name)
        except BaseException:  # raised by a callback, after the result was set
            logger.exception("a callback of %r failed", self._name)


class LocalStageActor(ThreadActor):
    """Runs a handler on one daemon thread, which owns the state of the stage.

    Args:
        handler: invocation -> ``{artifact: value}``; called on that thread, one invocation at a time. An exception
            fails that invocation; :class:`StreamingActorFailedError` fails the actor.
        mailbox_capacity: invocations that may wait while one runs.
        name: of the thread, and in errors.
        session_closer: releases the state of a session, on the same thread.

    Raises:
        ValueError: naming the argument.
    """

    def __init__(
        self,
        handler: StageHandler,
        mailbox_capacity: int = 1,
        name: str = "local-stage-actor",
        session_closer: SessionCloser | None = None,
    ) -> None:
        check_callable("handler", handler)
        self._handler = handler
        super().__init__(mailbox_capacity, 1, name, session_closer)

    def run(self, work: Work) -> None:
        """Run the handler."""
        self.mark_in_service((work,))
        try:
            if not self.start(work):
                return
            outputs = self._handler(work.invocation)
        except BaseException as error:  # no exception of a stage ends the thread
            self.complete(work, error=error)
        else:
            self.complete(work, outputs)


BatchHandler: TypeAlias = Callable[[list[StreamingStageInvocation]], Sequence["Mapping[str, object] | BaseException"]]


class BatchedStageActor(ThreadActor):
    """Runs waiting invocations of several sessions together, on one daemon thread that owns the state of the stage.

    A batch has at most one invocation of each session, in the order of submission. It contains what is waiting when it
    starts, and does not wait for more unless ``linger_seconds`` is set.

    Args:
        handler: invocations -> for each of them, in order, ``{artifact: value}`` or the exception that it failed with.
            If it raises, it is called again for each half, down to single invocations: a handler that raises must not
            have changed any state.
        max_batch: limit of invocations in one call.
        mailbox_capacity: invocations that may wait while a batch runs; ``None``: ``max_batch``.
        name: of the thread, and in errors.
        session_closer: releases the state of a session, on the same thread.
        linger_seconds: time for which an invocation waits for others to join it.

    Raises:
        ValueError: naming the argument.
    """

    def __init__(
        self,
        handler: BatchHandler,
        max_batch: int = 8,
        mailbox_capacity: int | None = None,
        name: str = "batched-stage-actor",
        session_closer: SessionCloser | None = None,
        linger_seconds: float = 0.0,
    ) -> None:
        check_count("max_batch", max_batch)
        check_seconds("linger_seconds", linger_seconds)
        check_callable("handler", handler)
        self._handler = handler
        self._max_batch = max_batch
        self._linger_s = linger_seconds
        super().__init__(max_batch if mailbox_capacity is None else mailbox_capacity, max_batch, name, session_closer)

    def run(self, work: Work) -> None:
        """Run the handler on a batch that begins with ``work``."""
        batch = self._gather(work)
        self.mark_in_service(tuple(batch))
        begun = [member for member in batch if self._start(member)]
        if begun:
            self._run_batch(begun)

    def _gather(self, first: Work) -> list[Work]:
        batch = [first]
        sessions = {first.invocation.key.session_id}
        until = time.monotonic() + self._linger_s
        while len(batch) < self._max_batch:
            work = self.next_work(until - time.monotonic() if self._linger_s else 0.0)
            if work is None:
                break
            if work.invocation.key.session_id in sessions:
                self.requeue(work)
                break
            sessions.add(work.invocation.key.session_id)
            batch.append(work)
        return batch

    def _start(self, work: Work) -> bool:
        try:
            return self.start(work)
        except BaseException as error:  # fails this member of the batch only
            self.complete(work, error=error)
            return False

    def _run_batch(self, batch: list[Work]) -> None:
        try:
            results = self._call(batch)
        except StreamingActorFailedError as error:  # the stage is lost, whichever invocation caused it
            for work in batch:
                self.complete(work, error=error)
        except BaseException as error:
            if len(batch) == 1:
                self.complete(batch[0], error=error)
                return
            middle = len(batch) // 2
            self._run_batch(batch[:middle])
            self._run_batch(batch[middle:])
        else:
            for work, result in zip(batch, results, strict=True):
                if isinstance(result, BaseException):
                    self.complete(work, error=result)
                else:
                    self.complete(work, result)

    def _call(self, batch: list[Work]) -> list[Mapping[str, object] | BaseException]:
        results = list(self._handler([work.invocation for work in batch]))
        if len(results) != len(batch):
            raise InvalidStageOutputError(
                f"the handler of a batch must return one result for each of its {len(batch)} invocations, "
                f"got {len(results)}"
            )
        return results
