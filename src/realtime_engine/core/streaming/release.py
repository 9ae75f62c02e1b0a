"""Releases the state of ended sessions in the stages."""

from __future__ import annotations

import inspect
import logging
import queue
import threading
from collections.abc import Callable, Sequence

from ..errors import describe
from .errors import StreamingActorFailedError, StreamingCleanupError
from .session import StreamingSession
from .types import StreamingSessionCloseReason, StreamingStageActor

logger = logging.getLogger(__name__)


class ReleaseJob:
    """A session that is being released, and the errors so far."""

    __slots__ = ("session", "errors")

    def __init__(self, session: StreamingSession) -> None:
        self.session = session
        self.errors: list[BaseException] = []


class SessionReleaser:
    """Releases sessions stage by stage, the last stage first, each stage once.

    Each stage has its own thread, started when it is first needed, so that a stage with a stuck handler delays only the
    sessions that it has to release itself.

    Args:
        stage_ids: in topological order.
        restartable: whether a failed actor of that stage is replaced; its state is gone with it.
        on_released: called with the session and the first error, on one of the threads.
        timeout_s: limit for one stage to release one session.
    """

    def __init__(
        self,
        stage_ids: Sequence[str],
        restartable: Sequence[bool],
        on_released: Callable[[StreamingSession, BaseException | None], None],
        timeout_s: float,
    ) -> None:
        self._stage_ids = tuple(stage_ids)
        self._restartable = tuple(restartable)
        self._on_released = on_released
        self._timeout_s = timeout_s
        self._lock = threading.Lock()
        self._queues: dict[int, queue.SimpleQueue[ReleaseJob | None]] = {}
        self._closed = False

    def release(self, session: StreamingSession) -> None:
        """Release a session whose invocations have all completed. Never blocks."""
        self._enqueue(ReleaseJob(session), len(self._stage_ids) - 1)

    def close(self) -> None:
        """End the threads when they have released the sessions that they have."""
        with self._lock:
            self._closed = True
            queues = [self._queues[index] for index in sorted(self._queues, reverse=True)]
        for waiting in queues:
            waiting.put(None)

    def _enqueue(self, job: ReleaseJob, index: int) -> None:
        with self._lock:
            waiting = self._queues.get(index)
            if not self._closed:
                if waiting is None:
                    waiting = self._queues[index] = queue.SimpleQueue()
                    self._start(index, self._main, index, waiting)
                waiting.put(job)
                return
        self._start(index, self._release_alone, job, index)  # the threads have ended

    def _start(self, index: int, main: Callable[..., None], *args: object) -> None:
        name = f"streaming-release-{self._stage_ids[index]}"
        threading.Thread(target=main, args=args, name=name, daemon=True).start()

    def _main(self, index: int, waiting: queue.SimpleQueue[ReleaseJob | None]) -> None:
        while (job := waiting.get()) is not None:
            self._release_at(job, index)
            if index > 0:
                self._enqueue(job, index - 1)
            else:
                self._finish(job)

    def _release_alone(self, job: ReleaseJob, start: int) -> None:
        for index in range(start, -1, -1):
            self._release_at(job, index)
        self._finish(job)

    def _release_at(self, job: ReleaseJob, index: int) -> None:
        session = job.session
        reason = session.close_reason or StreamingSessionCloseReason.CLOSED
        try:
            actor = session.lanes[index].actor
            if takes_timeout(actor):
                actor.close_session(session.context, reason, timeout=self._timeout_s)
            else:
                actor.close_session(session.context, reason)
        except BaseException as error:  # the other stages are released nevertheless
            if isinstance(error, StreamingActorFailedError) and self._restartable[index]:
                return
            logger.warning(
                "stage %r could not release %s: %s", self._stage_ids[index], session.context, describe(error)
            )
            job.errors.append(error)

    def _finish(self, job: ReleaseJob) -> None:
        self._on_released(job.session, cleanup_error(job))


def takes_timeout(actor: StreamingStageActor) -> bool:
    """Whether ``close_session`` of this actor has a parameter ``timeout``."""
    try:
        parameters = inspect.signature(actor.close_session).parameters
    except (TypeError, ValueError):  # not a Python function
        return True
    return "timeout" in parameters or any(p.kind is inspect.Parameter.VAR_KEYWORD for p in parameters.values())


def cleanup_error(job: ReleaseJob) -> StreamingCleanupError | None:
    """One error for all errors of a job; ``None`` without any."""
    if not job.errors:
        return None
    reasons = "; ".join(describe(error) for error in job.errors)
    error = StreamingCleanupError(f"session {job.session.session_id!r} was not released entirely: {reasons}")
    error.__cause__ = job.errors[0]
    return error
