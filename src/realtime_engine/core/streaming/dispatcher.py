"""Carries out the effects of the scheduler: the link between its lock and the threads of the actors."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Mapping
from concurrent.futures import Future
from functools import partial
from types import TracebackType

from ..errors import reraise_interrupt
from ..waiters import wake
from .errors import InvalidStageOutputError, StreamingActorBusyError, StreamingActorFailedError, contained
from .release import SessionReleaser
from .scheduler import Effects, Scheduler
from .session import RUNNING
from .work import ActorLane, StageWork, WithdrawnError

RETRY_S = 0.002


class Dispatcher:
    """``with dispatcher as scheduler:`` holds the scheduling lock, and carries out the effects after its release.

    Scheduling runs on the thread that caused it, most often that of the actor which has completed an invocation. Actors
    are called without the lock. One may complete an invocation within ``submit``; the resulting submissions are made in
    a loop, not recursively.

    A finalizer that the garbage collector runs on the thread that holds the lock gets ``RuntimeError`` instead of a
    deadlock.

    Args:
        scheduler: decides what to do.
        releaser: releases ended sessions.
    """

    def __init__(self, scheduler: Scheduler, releaser: SessionReleaser) -> None:
        self._scheduler = scheduler
        self._releaser = releaser
        self._lock = threading.Lock()
        self._holder: int | None = None
        self._here = threading.local()

    def __enter__(self) -> Scheduler:
        here = threading.get_ident()
        if self._holder == here:
            raise RuntimeError("called during scheduling, by a finalizer or a clock; use another thread")
        self._lock.acquire()
        self._holder = here
        return self._scheduler

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        effects = self._scheduler.take_effects()
        self._holder = None
        self._lock.release()
        if effects is not None:
            self._perform(effects)

    def _perform(self, effects: Effects) -> None:
        for work in effects.withdrawn:
            future = work.future  # cleared by the completion, at any moment
            if future is not None:  # otherwise the thread that submits it notices the end of the session
                future.cancel()
        if effects.started:
            self._submit_all(effects.started)
        if effects.woken:
            wake(effects.woken)
        for session in effects.ended:
            self._releaser.release(session)
        for statistics in effects.batches:
            totals = statistics.evaluate()
            with self:
                statistics.commit(totals)

    def _submit_all(self, works: list[StageWork]) -> None:
        waiting: deque[StageWork] | None = getattr(self._here, "waiting", None)
        if waiting is not None:  # this is within a submit on this thread, whose loop continues with these
            waiting.extend(works)
            return
        waiting = self._here.waiting = deque(works)
        interrupt: KeyboardInterrupt | None = None
        try:
            while waiting:
                try:
                    self._submit(waiting.popleft())
                except KeyboardInterrupt as error:  # the others belong to other sessions
                    interrupt = error
        finally:
            self._here.waiting = None
        if interrupt is not None:
            raise interrupt

    def _submit(self, work: StageWork) -> None:
        invocation = work.invocation
        if work.session.status is not RUNNING or invocation is None:
            self._complete(work, None, WithdrawnError("the session ended"))
            return
        try:
            future = work.future = work.lane.actor.submit(invocation)
            if work.session.status is not RUNNING:
                future.cancel()
            future.add_done_callback(partial(self._on_done, work))
        except StreamingActorBusyError:
            self._postpone(work)
        except BaseException as error:  # an error of an actor ends this session only
            self._complete(work, None, contained(error, f"the actor of stage {stage_of(work)!r}"))
            reraise_interrupt(error)

    def _postpone(self, work: StageWork) -> None:
        with self as scheduler:
            must_retry = scheduler.on_refused(work)
        if must_retry:
            timer = threading.Timer(RETRY_S, self._retry, (work.lane,))
            timer.daemon = True
            timer.start()

    def _retry(self, lane: ActorLane) -> None:
        with self as scheduler:
            scheduler.retry(lane)

    def _on_done(self, work: StageWork, future: Future[Mapping[str, object]]) -> None:
        invocation = work.invocation  # keeps its values alive, so that they are not freed under the lock
        work.future = None  # which holds this callback, and so the work
        outputs, error = outcome(work, future)
        self._complete(work, outputs, error)
        del invocation

    def _complete(self, work: StageWork, outputs: Mapping[str, object] | None, error: BaseException | None) -> None:
        with self as scheduler:
            scheduler.on_completed(work, outputs, error)


def stage_of(work: StageWork) -> str:
    """The stage id of an invocation."""
    return work.progress.table.spec.stage_id


def outcome(
    work: StageWork, future: Future[Mapping[str, object]]
) -> tuple[dict[str, object] | None, BaseException | None]:
    """Outputs or error of a finished future."""
    if future.cancelled():
        if work.session.status is not RUNNING:
            return None, WithdrawnError("the session ended")
        return None, StreamingActorFailedError(f"the actor of stage {stage_of(work)!r} dropped an invocation")
    where = f"stage {stage_of(work)!r}"
    raised = future.exception()
    if raised is not None:
        return None, contained(raised, where)
    try:
        return checked_outputs(work, future.result()), None
    except BaseException as error:  # raised by a mapping with code of its own
        return None, contained(error, where)


def checked_outputs(work: StageWork, given: object) -> dict[str, object]:
    """The outputs of a handler as a dictionary.

    Raises:
        InvalidStageOutputError: they are not exactly the artifacts that the stage produces.
    """
    expected = work.progress.table.spec.produces
    where = f"stage {stage_of(work)!r}, session {work.session.session_id!r}, sequence {work.sequence_id}"
    if not isinstance(given, Mapping):
        raise InvalidStageOutputError(f"{where}: expected a mapping of {sorted(expected)}, got {type(given).__name__}")
    outputs = dict(given)
    if outputs.keys() != expected:
        raise InvalidStageOutputError(
            f"{where}: expected the outputs {sorted(expected)}, got {sorted(map(str, outputs))}"
        )
    return outputs
