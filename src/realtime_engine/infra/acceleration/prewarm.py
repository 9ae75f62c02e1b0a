"""What is slow the first time (compiling, capturing, loading), done in order before anybody waits for it."""

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
    """A name for people, and the work. Work that takes long looks at :attr:`Prewarm.should_stop` now and then."""

    name: str
    run: Callable[[], object]


@dataclass(frozen=True)
class PrewarmEvent:
    """One change of one step.

    Attributes:
        step: its name.
        index, total: its place in the sequence, from 0, and the length of that.
        state: what has become of it.
        elapsed_s: since the sequence began.
        error: what it raised, when it has failed.
    """

    step: str
    index: int
    total: int
    state: StepState
    elapsed_s: float
    error: Exception | None = None


@dataclass(frozen=True)
class PrewarmReport:
    """How a sequence ended.

    Attributes:
        ending: ``complete`` when every step was run, else what stopped it.
        done, skipped: names, in order.
        failed: name -> what the step raised.
        elapsed_s: how long it took.
    """

    ending: Ending
    done: tuple[str, ...]
    failed: Mapping[str, Exception]
    skipped: tuple[str, ...]
    elapsed_s: float


class Prewarm:
    """A sequence of steps, run once on the caller's thread.

    A step that fails is logged, and the next one is run: what was to be warmed up is only slower the first time.
    After the deadline or :meth:`cancel` no further step begins; one that runs is not interrupted.
    """

    def __init__(
        self,
        steps: Sequence[PrewarmStep],
        *,
        deadline_s: float | None = None,
        on_event: Callable[[PrewarmEvent], None] | None = None,
        clock: Clock = MONOTONIC,
    ) -> None:
        """
        Args:
            steps: with names that differ.
            deadline_s: seconds from the start of :meth:`run`; ``None`` for no limit.
            on_event: told of every change, on the running thread. If it raises, it is told no more.
        """
        names = [step.name for step in steps]
        if len(set(names)) < len(names):
            raise ValueError(f"the names of steps must differ: {', '.join(names)}")
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
        """Begin no further step. From any thread; before :meth:`run` too."""
        self._cancelled.set()

    @property
    def should_stop(self) -> bool:
        """Whether it was cancelled or its time is over."""
        return self._stopped_by() is not None

    def run(self) -> PrewarmReport:
        """Run the steps that there is time for.

        Raises:
            RuntimeError: it was run before.
        """
        if self._began_ns is not None:
            raise RuntimeError("this prewarm sequence was run before: make a new one")
        self._began_ns = self._clock.now_ns()
        stopped_by: Ending | None = None
        for index, step in enumerate(self._steps):
            stopped_by = stopped_by or self._stopped_by()
            if stopped_by is None:
                self._run_step(index, step)
            else:
                self._skipped.append(step.name)
                self._tell(index, "skipped")
        if self._skipped:
            _logger.warning("prewarm stopped (%s), left out: %s", stopped_by, ", ".join(self._skipped))
        return PrewarmReport(
            stopped_by or "complete", tuple(self._done), dict(self._failed), tuple(self._skipped), self._elapsed_s()
        )

    def _run_step(self, index: int, step: PrewarmStep) -> None:
        self._tell(index, "started")
        try:
            step.run()
        except Exception as error:
            _logger.warning("prewarm step %s failed: %s", step.name, describe(error), exc_info=error)
            self._failed[step.name] = error
            self._tell(index, "failed", error)
        else:
            self._done.append(step.name)
            self._tell(index, "done")

    def _stopped_by(self) -> Ending | None:
        if self._cancelled.is_set():
            return "cancelled"
        if self._deadline_s is not None and self._elapsed_s() >= self._deadline_s:
            return "deadline"
        return None

    def _elapsed_s(self) -> float:
        return 0.0 if self._began_ns is None else (self._clock.now_ns() - self._began_ns) / NS_PER_S

    def _tell(self, index: int, state: StepState, error: Exception | None = None) -> None:
        if self._on_event is None:
            return
        event = PrewarmEvent(self._steps[index].name, index, len(self._steps), state, self._elapsed_s(), error)
        try:
            self._on_event(event)
        except Exception as raised:
            _logger.warning("the prewarm listener is told no more: %s", describe(raised), exc_info=raised)
            self._on_event = None
