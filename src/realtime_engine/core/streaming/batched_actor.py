"""An actor that takes the ready items of several sessions in one call."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

from .errors import InvalidStageOutputError, StreamingActorFailedError
from .specs import check_callable, check_count, check_seconds
from .tasks import StreamingStageInvocation
from .thread_actor import SessionCloser, ThreadActor, Work

__all__ = ["BatchedStageActor"]

BatchHandler: TypeAlias = Callable[[list[StreamingStageInvocation]], Sequence["Mapping[str, object] | BaseException"]]


class BatchedStageActor(ThreadActor):
    """One daemon thread that owns its stage's state and runs waiting invocations of several sessions together.

    A batch holds at most one invocation of a session, in the order in which they were submitted, and never waits for
    more than are there unless ``linger_seconds`` says so.

    Args:
        handler: invocations -> for each of them, in order, ``{artifact: value}`` or the exception that it failed with.
            If it raises, it is called again for each half, down to the culprits: a handler that raises must have
            changed nothing.
        max_batch: most invocations in one call.
        mailbox_capacity: invocations that may wait while a batch is run; ``None``: as many as a batch holds.
        linger_seconds: how long an invocation may be held for others to join it.

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
        batch = self._gather(work)
        self.serve(tuple(batch))
        begun = [member for member in batch if self._begin(member)]
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
                self.put_back(work)
                break
            sessions.add(work.invocation.key.session_id)
            batch.append(work)
        return batch

    def _begin(self, work: Work) -> bool:
        try:
            return self.begin(work)
        except BaseException as error:  # its own failure
            self.answer(work, error=error)
            return False

    def _run_batch(self, batch: list[Work]) -> None:
        try:
            answers = self._call(batch)
        except StreamingActorFailedError as error:  # the stage is lost: there is nothing to search for
            for work in batch:
                self.answer(work, error=error)
        except BaseException as error:
            if len(batch) == 1:
                self.answer(batch[0], error=error)
                return
            middle = len(batch) // 2
            self._run_batch(batch[:middle])
            self._run_batch(batch[middle:])
        else:
            for work, answer in zip(batch, answers, strict=True):
                if isinstance(answer, BaseException):
                    self.answer(work, error=answer)
                else:
                    self.answer(work, answer)

    def _call(self, batch: list[Work]) -> list[Mapping[str, object] | BaseException]:
        answers = list(self._handler([work.invocation for work in batch]))
        if len(answers) != len(batch):
            raise InvalidStageOutputError(
                f"the handler of a batch must return one answer for each of its {len(batch)} invocations, "
                f"got {len(answers)}"
            )
        return answers
