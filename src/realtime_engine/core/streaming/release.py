"""Letting go of what the stages hold of sessions that have ended."""

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
    """A session on its way back through the stages."""

    __slots__ = ("session", "errors")

    def __init__(self, session: StreamingSession) -> None:
        self.session = session
        self.errors: list[BaseException] = []


class SessionReleaser:
    """PendingDetaches sessions stage by stage, the last stage first, each stage once.

    Every stage has a thread of its own for this, started when it is first needed, so that a stage whose handler is
    stuck keeps only the sessions that it has to release itself.

    Args:
        stage_ids: in topological order.
        restartable: whether a dead actor of that stage is replaced: what it held is gone with it.
        on_released: called with the session and what went wrong, on one of the threads.
        timeout: seconds for one stage to release one session.
    """

    def __init__(
        self,
        stage_ids: Sequence[str],
        restartable: Sequence[bool],
        on_released: Callable[[StreamingSession, BaseException | None], None],
        timeout: float,
    ) -> None:
        self._stage_ids = tuple(stage_ids)
        self._restartable = tuple(restartable)
        self._on_released = on_released
        self._timeout = timeout
        self._lock = threading.Lock()
        self._lines: dict[int, queue.SimpleQueue[ReleaseJob | None]] = {}
        self._closed = False

    def release(self, session: StreamingSession) -> None:
        """Take a session whose work has all been answered. Never waits."""
        self._pass_on(ReleaseJob(session), len(self._stage_ids) - 1)

    def close(self) -> None:
        """End the threads, once they have done what they were given."""
        with self._lock:
            self._closed = True
            lines = [self._lines[index] for index in sorted(self._lines, reverse=True)]
        for line in lines:
            line.put(None)

    def _pass_on(self, job: ReleaseJob, index: int) -> None:
        with self._lock:
            line = self._lines.get(index)
            if not self._closed:
                if line is None:
                    line = self._lines[index] = queue.SimpleQueue()
                    self._start(index, self._main, index, line)
                line.put(job)
                return
        self._start(index, self._release_alone, job, index)  # a late one: the threads have ended

    def _start(self, index: int, main: Callable[..., None], *args: object) -> None:
        name = f"streaming-release-{self._stage_ids[index]}"
        threading.Thread(target=main, args=args, name=name, daemon=True).start()

    def _main(self, index: int, line: queue.SimpleQueue[ReleaseJob | None]) -> None:
        while (job := line.get()) is not None:
            self._release_at(job, index)
            if index > 0:
                self._pass_on(job, index - 1)
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
                actor.close_session(session.context, reason, timeout=self._timeout)
            else:
                actor.close_session(session.context, reason)
        except BaseException as error:  # the other stages are released all the same
            if isinstance(error, StreamingActorFailedError) and self._restartable[index]:
                return
            logger.warning(
                "stage %r could not release %s: %s", self._stage_ids[index], session.context, describe(error)
            )
            job.errors.append(error)

    def _finish(self, job: ReleaseJob) -> None:
        self._on_released(job.session, cleanup_error(job))


def takes_timeout(actor: StreamingStageActor) -> bool:
    """Whether ``close_session`` has a timeout; actors written for the bare protocol wait as long as they like."""
    try:
        parameters = inspect.signature(actor.close_session).parameters
    except (TypeError, ValueError):  # not a Python function
        return True
    return "timeout" in parameters or any(p.kind is inspect.Parameter.VAR_KEYWORD for p in parameters.values())


def cleanup_error(job: ReleaseJob) -> StreamingCleanupError | None:
    """One error for all that went wrong."""
    if not job.errors:
        return None
    reasons = "; ".join(describe(error) for error in job.errors)
    error = StreamingCleanupError(f"session {job.session.session_id!r} was not released entirely: {reasons}")
    error.__cause__ = job.errors[0]
    return error
