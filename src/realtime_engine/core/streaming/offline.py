"""Runs a pipeline offline: from a sequence of inputs to its outputs, without a clock."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from types import MappingProxyType

from .errors import SessionEndedError, StreamingError
from .orchestrator import StreamingPipelineOrchestrator
from .types import StreamingOutput, StreamingSessionStatus

__all__ = ["run_offline"]

_NOTHING: Mapping[str, object] = MappingProxyType({})
_DRAIN_TIMEOUT_S = 1e6  # the reader of the outputs may be slow
_EXHAUSTED: Mapping[str, object] = MappingProxyType({})  # compared by identity


def run_offline(
    pipeline: StreamingPipelineOrchestrator,
    inputs: Iterable[Mapping[str, object]],
    *,
    controls: Mapping[str, object] = _NOTHING,
    session_id: str = "offline",
) -> Iterator[StreamingOutput]:
    """Yield the outputs for ``inputs``, in order; stages overlap as they do when the pipeline is served.

    A thread reads ``inputs`` as the pipeline has room, so that it is ahead of the yielded outputs by no more than what
    the pipeline holds. It pushes an input once it has read the next one or the end, since a stage must know which input
    is the last. The pipeline stays open; the session is closed at the end, also if the caller stops early. A
    :class:`~.types.StreamingLastOutput` ends the run before ``inputs`` end. Inside an event loop, use ``push_inputs``
    and ``outputs`` of the pipeline instead.

    Args:
        pipeline: the pipeline.
        inputs: artifact -> value, one mapping for each sequence.
        controls: values of ``latest`` edges, for the whole run.
        session_id: of the session that is created for the run.

    Raises:
        RuntimeError: called inside an event loop.
        SessionActiveError: the session id is in use.
        BaseException: raised by a stage or by ``inputs``, after the outputs before it.
    """
    check_no_loop()
    pipeline.create_session(session_id)
    feeder = _Feeder(pipeline, session_id, inputs)
    loop = asyncio.new_event_loop()
    try:
        for name, value in controls.items():
            pipeline.set_control(session_id, name, value)
        feeder.start()
        outputs = pipeline.outputs(session_id)
        while (output := loop.run_until_complete(_next(outputs))) is not None:
            yield output
        if feeder.error is None and pipeline.status(session_id) is StreamingSessionStatus.RUNNING:
            return  # all sequences are out; the last one may have ended the run before the inputs did
        feeder.join()
        if feeder.error is not None:
            raise feeder.error
    finally:
        loop.close()
        try:
            pipeline.close_session(session_id, timeout=60.0)
        finally:
            feeder.stop()


def check_no_loop() -> None:
    """``RuntimeError`` if this thread runs an event loop."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    raise RuntimeError("run_offline blocks its thread; inside an event loop use push_inputs and outputs instead")


async def _next(outputs: AsyncIterator[StreamingOutput]) -> StreamingOutput | None:
    return await anext(outputs, None)


class _Feeder(threading.Thread):
    """Pushes all inputs; ``error`` is the exception of ``inputs``."""

    def __init__(
        self, pipeline: StreamingPipelineOrchestrator, session_id: str, inputs: Iterable[Mapping[str, object]]
    ) -> None:
        super().__init__(name=f"feed {session_id}", daemon=True)
        self.error: BaseException | None = None
        self._pipeline = pipeline
        self._session_id = session_id
        self._inputs = inputs
        self._using = threading.Lock()  # held while it uses the session, not while it waits for inputs
        self._stopped = False

    def stop(self) -> None:
        """Do not use the session again, whose id may be reused from now on. Called after the session was closed."""
        with self._using:
            self._stopped = True

    def run(self) -> None:
        loop = asyncio.new_event_loop()
        try:
            self._feed(loop)
        except SessionEndedError:  # the reader of the outputs gets the reason
            return
        except BaseException as error:
            with self._using:
                if not self._stopped:
                    self._fail(error.error if isinstance(error, _InputsFailed) else error)
        finally:
            loop.close()

    def _fail(self, error: BaseException) -> None:
        """Complete what was pushed before the error."""
        with contextlib.suppress(StreamingError, TimeoutError):  # it was closed at the same time
            if self._pipeline.status(self._session_id) is StreamingSessionStatus.RUNNING:
                self.error = error
                self._pipeline.drain_session(self._session_id, timeout=_DRAIN_TIMEOUT_S)

    def _feed(self, loop: asyncio.AbstractEventLoop) -> None:
        iterator = self._begin()
        following = self._next(iterator)
        sequence_id = 0
        while following is not _EXHAUSTED:
            current, failure = following, None
            try:
                following = self._next(iterator)
            except _InputsFailed as failed:
                failure = failed
            with self._using:
                if self._stopped:
                    return
                if following is _EXHAUSTED:
                    self._pipeline.finish_inputs(self._session_id, sequence_id)
                loop.run_until_complete(self._pipeline.push_inputs(self._session_id, sequence_id, current))
            if failure is not None:
                raise failure
            sequence_id += 1
        if sequence_id == 0:
            with self._using:
                if not self._stopped:
                    self._pipeline.drain_session(self._session_id)

    def _begin(self) -> Iterator[Mapping[str, object]]:
        try:
            return iter(self._inputs)
        except BaseException as error:
            raise _InputsFailed(error) from error

    def _next(self, iterator: Iterator[Mapping[str, object]]) -> Mapping[str, object]:
        """The next inputs. The code of the caller runs outside of an event loop, and may run one of its own."""
        try:
            return next(iterator, _EXHAUSTED)
        except BaseException as error:
            raise _InputsFailed(error) from error


class _InputsFailed(Exception):
    """The inputs of the caller raised ``error``, which may be an error of another pipeline."""

    def __init__(self, error: BaseException) -> None:
        super().__init__(error)
        self.error = error
