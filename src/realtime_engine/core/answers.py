"""Answers that wait until the pipeline has brought out the chunks that come before them."""

from __future__ import annotations

from dataclasses import dataclass

from .messages import SessionEvent


@dataclass(eq=False, slots=True)
class _Held:
    event: SessionEvent
    steps: int


class HeldAnswers:
    """Answers in the order in which they were given, each with the number of steps that it has to wait."""

    def __init__(self) -> None:
        self._held: list[_Held] = []

    def __bool__(self) -> bool:
        return bool(self._held)

    def hold(self, event: SessionEvent, steps: int) -> None:
        """Keep an answer until :meth:`step_passed` was called ``steps`` times."""
        self._held.append(_Held(event, steps))

    def holds(self, session_id: str) -> bool:
        """Whether an answer of this session waits."""
        return any(held.event.session_id == session_id for held in self._held)

    def step_passed(self) -> list[SessionEvent]:
        """A step has brought out its chunks: the answers whose time has come."""
        for held in self._held:
            held.steps -= 1
        ready = [held.event for held in self._held if held.steps <= 0]
        self._held = [held for held in self._held if held.steps > 0]
        return ready

    def take(self, session_id: str | None = None) -> list[SessionEvent]:
        """All answers, or those of one session, because no chunk will come before them any more."""
        taken = [held.event for held in self._held if session_id in (None, held.event.session_id)]
        self._held = [held for held in self._held if session_id not in (None, held.event.session_id)]
        return taken
