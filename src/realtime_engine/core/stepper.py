"""Steps an engine and attributes each failure to a session."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from .clock import Clock
from .contract import RealtimeInterface, StepResult
from .errors import EngineContractError, StepFailure, call_hook
from .loglimit import LogLimiter
from .messages import Chunk, Stamps
from .monitor import ServeMonitor
from .session import NOTHING_APPLIED, Applied, Session

Due = Mapping[str, Mapping[str, Any]]

_new_stamps = tuple.__new__  # half the cost of Stamps(...), once a chunk


@dataclass(slots=True)
class Outcome:
    """Result of stepping some sessions.

    Attributes:
        emitted: sessions whose chunks left, in order.
        finished: sessions whose last chunk left.
        failures: session id -> what it failed with.
    """

    emitted: list[str] = field(default_factory=list)
    finished: list[str] = field(default_factory=list)
    failures: dict[str, BaseException] = field(default_factory=dict)


class StepperOwner(Protocol):
    """The loop that a :class:`Stepper` works for."""

    @property
    def interrupted(self) -> bool:
        """Whether to stop searching for the culprit of a failure."""

    def send_chunks(self, chunks: list[Chunk]) -> None:
        """Send the chunks of one step; called after every step, also without chunks."""

    def awaits_chunks(self, session: Session) -> bool:
        """Whether a paused session's last chunks are still in the pipeline."""


@dataclass(frozen=True)
class StepperOptions:
    """How a :class:`Stepper` works.

    Attributes:
        clock: time of the stamps.
        monitor: counters to update.
        log: receives results that belong to no session.
        depth: steps from the one that begins a chunk to the one that returns it, both counted.
        max_chunks: chunks after which each epoch of a session finishes; ``None``: no limit.
    """

    clock: Clock
    monitor: ServeMonitor
    log: LogLimiter
    depth: int = 1
    max_chunks: int | None = None


class _Call(NamedTuple):
    """One successful ``step`` call, kept until the chunks that it began have left the pipeline."""

    begin_ns: int
    applied: dict[str, Applied]


class Stepper:
    """Calls ``step`` and ``finalize``, turns results into chunks, and finds the session that made a step fail."""

    def __init__(
        self, engine: RealtimeInterface, sessions: Mapping[str, Session], owner: StepperOwner, options: StepperOptions
    ) -> None:
        self._engine = engine
        self._sessions = sessions
        self._owner = owner
        self._depth = options.depth
        self._max_chunks = options.max_chunks
        self._clock = options.clock
        self._monitor = options.monitor
        self._log = options.log
        self._calls: deque[_Call] = deque(maxlen=options.depth)
        self._primed = False

    @property
    def depth(self) -> int:
        """Steps from the one that begins a chunk to the one that returns it, both counted."""
        return self._depth

    @property
    def primed(self) -> bool:
        """Whether a pipelined engine may still hold chunks that only another step returns."""
        return self._primed

    def step(self, due: Due, outcome: Outcome, *, flush: bool = False) -> None:
        """Step ``due`` in one batch; if that fails, find the culprits by bisection and step the others.

        Args:
            due: session id -> conditioning.
            outcome: receives what happened.
            flush: empty the pipeline in the same call, so that a later failure cannot lose these chunks.
        """
        error = self._attempt(due, outcome, flush=flush)
        if error is not None:
            self._bisect(due, error, outcome)

    def flush(self, outcome: Outcome) -> None:
        """Empty the pipeline. A failure loses its chunks and is attributed to no session."""
        error = self._attempt({}, outcome, flush=True)
        if error is not None:
            self._discard_pipeline(error)

    def _discard_pipeline(self, error: BaseException) -> None:
        self._primed = False
        self._log.error("flushing the pipeline failed", error)

    def finalize(self, outcome: Outcome) -> None:
        """Call ``finalize`` for the sessions whose chunks left; if that fails, for each alone."""
        if not outcome.emitted:
            return
        ids = list(dict.fromkeys(outcome.emitted))
        try:
            call_hook(self._engine.finalize, ids)
        except StepFailure as failure:
            outcome.failures.update(failure.failures)
        except BaseException as error:
            if len(ids) == 1:
                outcome.failures[ids[0]] = error
            else:
                self._finalize_each(ids, outcome)

    def _finalize_each(self, ids: list[str], outcome: Outcome) -> None:
        for session_id in ids:
            try:
                call_hook(self._engine.finalize, [session_id])
            except BaseException as error:
                outcome.failures[session_id] = error

    def _bisect(self, due: Due, error: BaseException, outcome: Outcome) -> None:
        if self._owner.interrupted:
            return
        ids = list(due)
        if not ids:
            self._discard_pipeline(error)
            return
        if len(ids) == 1:
            # In a pipeline the failure may be that of an older batch: only a second one, alone, is this session's.
            again = self._attempt(due, outcome, flush=True) if self._depth > 1 else error
            if again is not None:
                outcome.failures[ids[0]] = again
            return
        for half in (ids[: len(ids) // 2], ids[len(ids) // 2 :]):
            part = {session_id: due[session_id] for session_id in half}
            again = self._attempt(part, outcome, flush=True)
            if again is not None:
                self._bisect(part, again, outcome)

    def _attempt(self, due: Due, outcome: Outcome, *, flush: bool) -> BaseException | None:
        """Step, and flush if asked; returns an error whose session is not known."""
        calls = [due] + [{}] * (self._depth - 1 if flush else 0)
        for part in calls:
            try:
                self._call_step(part, outcome)
            except StepFailure as failure:
                known = {sid: error for sid, error in failure.failures.items() if sid in self._sessions}
                if not known and not failure.results:
                    return failure
                outcome.failures.update(known)
            except BaseException as error:
                return error
        return None

    def _call_step(self, due: Due, outcome: Outcome) -> None:
        begin = self._clock.now_ns()
        self._monitor.steps += 1
        try:
            results = call_hook(self._engine.step, dict(due))
        except StepFailure as failure:
            self._collect(due, failure.results, begin, outcome)
            raise
        self._collect(due, results, begin, outcome)

    def _collect(self, due: Due, results: list[StepResult], begin: int, outcome: Outcome) -> None:
        if not isinstance(results, (list, tuple)):
            raise EngineContractError(f"step() must return a list of StepResult, got {type(results).__name__}")
        end = self._clock.now_ns()
        if self._depth == 1:
            self._make_chunks(results, None, begin, end, outcome)
            return
        sessions = self._sessions
        self._calls.append(_Call(begin, {sid: sessions[sid].applied for sid in due if sid in sessions}))
        self._primed = bool(due)
        origin = self._calls[0] if len(self._calls) == self._depth else None
        self._make_chunks(results, origin, begin, end, outcome)

    def _make_chunks(
        self, results: list[StepResult], origin: _Call | None, begin: int, end: int, outcome: Outcome
    ) -> None:
        chunks: list[Chunk] = []
        finished: list[Session] = []
        emitted = self._clock.now_ns()
        if origin is not None:
            begin = origin.begin_ns
        try:
            for result in results:
                session = self._session_of(result)
                if session is None:
                    continue
                session_id = session.session_id
                applied = session.applied if origin is None else origin.applied.get(session_id, NOTHING_APPLIED)
                stamps = _new_stamps(Stamps, (applied.received_ns, begin, end, emitted))
                seq = session.seq
                session.seq = seq + 1
                chunks.append(
                    Chunk(session_id, result.output, result.stats, seq, session.epoch, applied.action_id, stamps)
                )
                if result.last or seq + 1 - session.epoch_begin_seq == self._max_chunks:
                    session.finished = True
                    finished.append(session)
        except BaseException:
            for session in finished:
                session.finished = False
            for chunk in chunks:
                self._sessions[chunk.session_id].seq -= 1  # as if none had been made
            raise
        outcome.emitted.extend([chunk.session_id for chunk in chunks])
        outcome.finished.extend([session.session_id for session in finished])
        self._owner.send_chunks(chunks)

    def _session_of(self, result: StepResult) -> Session | None:
        """The session that a result is sent to; ``None``: it is discarded."""
        if not isinstance(result, StepResult):
            raise EngineContractError(f"step() must return StepResult items, got {type(result).__name__}")
        session = self._sessions.get(result.session_id)
        if session is not None and not session.finished:
            if session.active or self._owner.awaits_chunks(session):
                return session
        elif session is not None and self._depth > 1:
            return None  # begun before its last chunk came out
        self._monitor.foreign += 1
        state = "is not attached" if session is None else "has finished" if session.finished else "is paused"
        stray = EngineContractError(f"step() returned a chunk for session {result.session_id!r}, which {state}")
        self._log.error("a chunk is discarded", stray)
        return None
