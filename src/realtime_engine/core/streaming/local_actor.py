"""An actor that runs a plain function on a thread of its own."""

from __future__ import annotations

from .specs import check_callable
from .thread_actor import SessionCloser, StageHandler, ThreadActor, Work

__all__ = ["LocalStageActor"]


class LocalStageActor(ThreadActor):
    """One daemon thread that owns its stage's state.

    Args:
        handler: invocation -> ``{artifact: value}``; called on that thread, one invocation at a time. What it raises
            is that invocation's answer. If it raises :class:`StreamingActorFailedError`, the actor has failed.
        mailbox_capacity: invocations that may wait while one is run.
        name: of the thread, and in errors.
        session_closer: lets go of what the stage holds of a session, on the same thread.

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
        self.serve((work,))
        try:
            if not self.begin(work):
                return
            outputs = self._handler(work.invocation)
        except BaseException as error:  # the thread outlives whatever a stage does
            self.answer(work, error=error)
        else:
            self.answer(work, outputs)
