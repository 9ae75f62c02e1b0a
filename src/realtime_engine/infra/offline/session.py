"""Runs one session of an engine as fast as possible, on the caller's thread."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from types import TracebackType
from typing import Any

from ...core.clock import MONOTONIC
from ...core.contract import RealtimeInterface, SessionInit
from ...core.errors import AdmissionError, call_hook, describe
from ...core.loglimit import LogLimiter
from ...core.messages import Action, Attach, Chunk, InboxMsg, Reset
from ...core.monitor import ServeMonitor
from ...core.session import Applied, Session
from ...core.stepper import Outcome, Stepper, StepperOptions
from .replay import Replay

_log = logging.getLogger(__name__)

_MAX_FAILURES = 10  # in a row, as when served
_MAX_SILENCE_S = 60.0
_NAP_S = 0.001


class RunFailed(RuntimeError):
    """The engine rejected the session, or failed it."""


class _Chunks:
    """Receives the chunks of a stepper."""

    interrupted = False

    def __init__(self, chunks: list[Chunk]) -> None:
        self._chunks = chunks

    def send_chunks(self, chunks: list[Chunk]) -> None:
        self._chunks.extend(chunks)

    def awaits_chunks(self, session: Session) -> bool:
        return False


class OfflineSession:
    """Drives Level 1 of the engine contract like the serve loop, but starts each step as soon as the last one ends.

    A context manager: at its end the session is detached, and an engine with a ``close`` method is closed.

    For a deterministic model, the chunks equal those of a served session that received the same messages before the
    same chunks.

    Args:
        engine: the engine.
        session_id: id of the session.
        max_chunks: limit of chunks per epoch, see ``Demo.max_chunks``.
    """

    def __init__(
        self, engine: RealtimeInterface, session_id: str = "offline", *, max_chunks: int | None = None
    ) -> None:
        self._engine = engine
        self._id = session_id
        self._sessions: dict[str, Session] = {}
        self._chunks: list[Chunk] = []
        self._begun = self._emitted = self._failures = 0
        self.manifest = call_hook(engine.manifest)
        self._depth = self.manifest.pipeline_depth_chunks
        self._stepper = Stepper(
            engine,
            self._sessions,
            _Chunks(self._chunks),
            StepperOptions(MONOTONIC, ServeMonitor(), LogLimiter(_log, MONOTONIC), self._depth, max_chunks),
        )

    def __enter__(self) -> OfflineSession:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: object, traceback: TracebackType | None) -> None:
        self.close()

    def play(self, replay: Replay, chunks: int) -> Iterator[Chunk]:
        """Yield the first ``chunks`` chunks; fewer if the rollout ends and the log does not reset it.

        Raises:
            RunFailed: the engine rejected the session, failed ten times in a row, or produced no chunk for a minute.
        """
        last_chunk_s = time.monotonic()
        while self._emitted < chunks:
            begun = min(self._begun, self._emitted + self._depth - 1)
            for message in replay.due(begun, self._emitted):
                self._apply(message)
            if self.finished:
                return
            made = self._step()
            if made:
                last_chunk_s = time.monotonic()
            elif time.monotonic() - last_chunk_s > _MAX_SILENCE_S:
                raise RunFailed(f"the engine has produced no chunk for {_MAX_SILENCE_S:g} s")
            elif self._begun >= self._depth:
                time.sleep(_NAP_S)  # the engine waits for asynchronous work, such as an encode
            for chunk in made:
                self._emitted += 1
                if chunk.seq < chunks:
                    yield chunk

    @property
    def finished(self) -> bool:
        """Whether the rollout has ended and was not reset."""
        session = self._sessions.get(self._id)
        return session is not None and session.finished

    def close(self) -> None:
        """Detach the session and close the engine."""
        if self._sessions:
            self._sessions.clear()
            call_hook(self._engine.detach, self._id)
        close = getattr(self._engine, "close", None)
        if callable(close):
            close()

    def _apply(self, message: InboxMsg) -> None:
        if isinstance(message, Attach):
            self._attach(SessionInit(self._id, message.context))
            self._sessions[self._id] = Session(self._id, message.context, epoch=1, seq=0)
        elif isinstance(message, Reset):
            self._reset(SessionInit(self._id, message.context))
        elif isinstance(message, Action) and self._id in self._sessions:
            applied = Applied(message.action_id, MONOTONIC.now_ns())
            self._sessions[self._id].apply(message.conditioning, tuple(message.events), applied)

    def _attach(self, init: SessionInit) -> None:
        try:
            call_hook(self._engine.attach, init)
        except Exception as error:
            raise RunFailed(f"the engine rejected the session: {describe(error)}") from error

    def _reset(self, init: SessionInit) -> None:
        session = self._sessions[self._id]
        reset = getattr(self._engine, "reset", None)
        try:
            if callable(reset):
                call_hook(reset, init)
            else:
                call_hook(self._engine.detach, self._id)
                call_hook(self._engine.attach, init)
        except AdmissionError as error:
            if callable(reset):  # the session is unchanged
                _log.warning("the engine rejected a reset: %s", describe(error))
                return
            raise RunFailed(f"the engine rejected the session in a reset: {describe(error)}") from error
        except Exception as error:
            raise RunFailed(f"the engine failed in a reset: {describe(error)}") from error
        session.begin_epoch(init.context, session.epoch + 1)
        self._begun = self._emitted  # the pipeline has discarded the old epoch

    def _step(self) -> list[Chunk]:
        due = {session.session_id: session.take_conditioning() for session in self._sessions.values()}
        outcome = Outcome()
        self._begun += 1
        self._stepper.step(due, outcome)
        self._stepper.finalize(outcome)
        made, self._chunks[:] = list(self._chunks), ()
        self._handle_failures(outcome)
        return made

    def _handle_failures(self, outcome: Outcome) -> None:
        error: Any = outcome.failures.get(self._id)
        if error is None:
            self._failures = 0
            return
        if isinstance(error, KeyboardInterrupt):
            raise error
        self._failures += 1
        _log.warning("a step failed: %s", describe(error))
        if self._failures >= _MAX_FAILURES:
            raise RunFailed(f"the engine has failed {_MAX_FAILURES} times in a row: {describe(error)}") from error
