"""The engine that the conformance suite examines, and how its checks step it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ..core.contract import RealtimeInterface, SessionInit, StepResult
from ..core.values import same_value
from .faults import FaultPlan

__all__ = ["Drive", "EngineCase", "assert_same", "name_of", "run"]

_MIN_STEPS = 4


def _default_context(index: int) -> dict[str, Any]:
    return {"seed": index + 1}


def _default_conditioning(index: int, step: int) -> dict[str, Any]:
    return {"move": (index + step) % 3 - 1}


@dataclass(frozen=True)
class EngineCase:
    """An engine for the suite.

    Attributes:
        make_engine: builds a new engine for this many sessions; called with 1, 2 and 3.
        context: index of a session -> attach context; different indices must give different output.
        conditioning: index of a session, number of the step -> conditioning.
        heavy: a heavy key and two different values for it; ``None`` skips the check of heavy changes.
        make_faulty: like ``make_engine``, with a fault plan in front of the model, for the check of failures:
            ``lambda n, plan: ComposedEngine(FaultyModel(MyModel(n), plan))``. ``None`` skips that check.
        same: whether two outputs are equal; by default bit for bit. A model whose output depends on the batch size
            within a tolerance needs a function that allows for it.
        steps: steps of a session in the checks that compare it alone and beside others, and in a row that another
            session has used. A leak that begins at an age is found from this many steps on: choose more than the
            length of a KV cache or of a window of frames, in chunks.
        rollout_chunks: chunks after which a rollout ends; ``None`` skips the check of ends. The other checks take up to
            60 steps: check shorter rollouts in a case of their own, ``skip=frozenset(CHECKS) - {"rollout_end"}``.
        skip: names of checks that do not apply, each the function's name without ``check_``.
    """

    make_engine: Callable[[int], RealtimeInterface]
    context: Callable[[int], Mapping[str, Any]] = _default_context
    conditioning: Callable[[int, int], Mapping[str, Any]] = _default_conditioning
    heavy: tuple[str, Any, Any] | None = None
    make_faulty: Callable[[int, FaultPlan], RealtimeInterface] | None = None
    same: Callable[[Any, Any], bool] = same_value
    rollout_chunks: int | None = None
    skip: frozenset[str] = field(default_factory=frozenset)
    steps: int = 12

    def __post_init__(self) -> None:
        if type(self.steps) is not int or self.steps < _MIN_STEPS:
            raise ValueError(f"EngineCase.steps must be an integer of at least {_MIN_STEPS}, got {self.steps!r}")


class Drive:
    """Steps an engine and collects the chunks of each session.

    Sessions are identified by an index; each has its own count of steps, so that a session gets the same conditioning
    alone and in a batch.
    """

    def __init__(self, case: EngineCase, engine: RealtimeInterface) -> None:
        self._case = case
        self._steps: dict[int, int] = {}
        self.engine = engine
        self.outputs: dict[int, list[Any]] = {}

    def attach(self, *indices: int, **extra: Any) -> None:
        """Attach these sessions, with additional context."""
        for index in indices:
            self.engine.attach(SessionInit(name_of(index), {**self._case.context(index), **extra}))
            self._steps[index] = 0
            self.outputs[index] = []

    def step(self, *indices: int, **extra: Any) -> list[int]:
        """Advance these sessions; returns the sessions whose chunks were returned."""
        due = {name_of(i): {**self._case.conditioning(i, self._steps[i]), **extra} for i in indices}
        for index in indices:
            self._steps[index] += 1
        return self._take(due)

    def flush(self) -> list[int]:
        """Step no session; returns the sessions whose chunks the pipeline still held."""
        return self._take({})

    def detach(self, *indices: int) -> None:
        """Detach these sessions."""
        for index in indices:
            self.engine.detach(name_of(index))

    def hold(self, *indices: int, **extra: Any) -> list[int]:
        """Like :meth:`step`, with the conditioning of step 0 each time, so that a chunk depends on its age alone."""
        return self._take({name_of(i): {**self._case.conditioning(i, 0), **extra} for i in indices})

    def hold_each(self, extras: Mapping[int, Mapping[str, Any]]) -> list[int]:
        """Like :meth:`hold`, with additional conditioning for each session."""
        return self._take({name_of(i): {**self._case.conditioning(i, 0), **extra} for i, extra in extras.items()})

    def _take(self, due: Mapping[str, Mapping[str, Any]]) -> list[int]:
        return self.keep(self.engine.step(due))

    def keep(self, results: list[StepResult]) -> list[int]:
        """Collect results and finalize them; returns their sessions."""
        came = [int(result.session_id.removeprefix("session-")) for result in results]
        assert len(set(came)) == len(came), f"step() returned two chunks of one session: {came}"
        for index, result in zip(came, results, strict=True):
            self.outputs[index].append(result.output)
        self.engine.finalize([result.session_id for result in results])
        return came


def name_of(index: int) -> str:
    """The id of a session."""
    return f"session-{index}"


def run(case: EngineCase, engine: RealtimeInterface, indices: tuple[int, ...], steps: int) -> dict[int, list[Any]]:
    """The chunks of these sessions, attached together and stepped together."""
    drive = Drive(case, engine)
    drive.attach(*indices)
    for _ in range(steps):
        drive.step(*indices)
    drive.flush()
    return drive.outputs


def assert_same(case: EngineCase, got: list[Any], wanted: list[Any], promise: str) -> None:
    """Raise :class:`AssertionError`, which names the promise, unless the chunks are the same."""
    assert len(got) == len(wanted), f"{promise}: {len(got)} chunks instead of {len(wanted)}"
    for step, (left, right) in enumerate(zip(got, wanted, strict=True)):
        assert case.same(left, right), f"{promise}: chunk {step} differs"
