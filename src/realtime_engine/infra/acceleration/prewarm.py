"""Prewarming: a sequence of slow first-time steps (compilation, capture, loading) with a deadline and progress."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from ...core.clock import MONOTONIC, NS_PER_S, Clock
from ...core.errors import describe

_logger = logging.getLogger(__name__)

StepState: TypeAlias = Literal["started", "done", "failed", "skipped"]
Ending: TypeAlias = Literal["complete", "deadline", "cancelled"]


@dataclass(frozen=True)
class PrewarmStep:
    """A display name and a function. A long-running function should poll :attr:`Prewarm.should_stop`."""

    name: str
    run: Callable[[], object]


@dataclass(frozen=True)
class PrewarmEvent:
    """A change of the state of one step.

    Attributes:
        step: name of the step.
        index: position of the step, from 0.
        total: number of steps.
        state: new state of the step.
        elapsed_s: seconds since the start of the sequence.
        error: error of a failed step.
    """

    step: str
    index: int
    total: int
    state: StepState
    elapsed_s: float
    error: Exception | None = None


@dataclass(frozen=True)
class PrewarmReport:
    """Result of a sequence.

    Attributes:
        ending: ``complete`` if every step ran, otherwise what stopped the sequence.
        done, skipped: names of steps, in order.
        failed: name of a failed step -> its error.
        elapsed_s: duration in seconds.
    """

    ending: Ending
    done: tuple[str, ...]
    failed: Mapping[str, Exception]
    skipped: tuple[str, ...]
    elapsed_s: float


class Prewarm:
    """A sequence of steps that runs once on the caller's thread.

    A failed step is logged and the sequence continues: the first use is only slower. After the deadline or
    :meth:`cancel` no further step starts; a running step is not interrupted.

    Args:
        steps: the steps; their names must be distinct.
        deadline_s: seconds from the start of :meth:`run`; ``None`` for no limit.
        on_event: called for each change on the thread of :meth:`run`. If it raises, it is not called again.
        clock: clock of the deadline.

    Raises:
        ValueError: two steps have the same name, or the deadline is not positive.
    """

    def __init__(
        self,
        steps: Sequence[PrewarmStep],
        *,
        deadline_s: float | None = None,
        on_event: Callable[[PrewarmEvent], None] | None = None,
        clock: Clock = MONOTONIC,
    ) -> None:
        names = [step.name for step in steps]
        if len(set(names)) < len(names):
            raise ValueError(f"the names of steps must be distinct, got {', '.join(names)}")
        if deadline_s is not None and deadline_s <= 0:
            raise ValueError(f"deadline_s must be more than 0, not {deadline_s}")
        self._steps = tuple(steps)
        self._deadline_s = deadline_s
        self._on_event = on_event
        self._clock = clock
        self._cancelled = threading.Event()
        self._began_ns: int | None = None
        self._done: list[str] = []
        self._failed: dict[str, Exception] = {}
        self._skipped: list[str] = []

    def cancel(self) -> None:
        """Start no further step. May be called from any thread, also before :meth:`run`."""
        self._cancelled.set()

    @property
    def should_stop(self) -> bool:
        """Whether the sequence was cancelled or its deadline has passed."""
        return self._stopped_by() is not None

    def run(self) -> PrewarmReport:
        """Run the steps until the deadline.

        Raises:
            RuntimeError: the sequence has run before.
        """
        if self._began_ns is not None:
            raise RuntimeError("a Prewarm sequence runs only once: create a new one")
        self._began_ns = self._clock.now_ns()
        stopped_by: Ending | None = None
        for index, step in enumerate(self._steps):
            stopped_by = stopped_by or self._stopped_by()
            if stopped_by is None:
                self._run_step(index, step)
            else:
                self._skipped.append(step.name)
                self._notify(index, "skipped")
        if self._skipped:
            _logger.warning("prewarm stopped (%s), skipped: %s", stopped_by, ", ".join(self._skipped))
        return PrewarmReport(
            stopped_by or "complete", tuple(self._done), dict(self._failed), tuple(self._skipped), self._elapsed_s()
        )

    def _run_step(self, index: int, step: PrewarmStep) -> None:
        self._notify(index, "started")
        try:
            step.run()
        except Exception as error:
            _logger.warning("prewarm step %s failed: %s", step.name, describe(error), exc_info=error)
            self._failed[step.name] = error
            self._notify(index, "failed", error)
        else:
            self._done.append(step.name)
            self._notify(index, "done")

    def _stopped_by(self) -> Ending | None:
        if self._cancelled.is_set():
            return "cancelled"
        if self._deadline_s is not None and self._elapsed_s() >= self._deadline_s:
            return "deadline"
        return None

    def _elapsed_s(self) -> float:
        return 0.0 if self._began_ns is None else (self._clock.now_ns() - self._began_ns) / NS_PER_S

    def _notify(self, index: int, state: StepState, error: Exception | None = None) -> None:
        if self._on_event is None:
            return
        event = PrewarmEvent(self._steps[index].name, index, len(self._steps), state, self._elapsed_s(), error)
        try:
            self._on_event(event)
        except Exception as raised:
            _logger.warning("the prewarm listener failed and is removed: %s", describe(raised), exc_info=raised)
            self._on_event = None
