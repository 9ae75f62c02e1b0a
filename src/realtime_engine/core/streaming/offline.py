"""A pipeline without a clock: from a sequence of inputs to its outputs."""

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
_NONE_LEFT: Mapping[str, object] = MappingProxyType({})  # known by its identity


def run_offline(
    pipeline: StreamingPipelineOrchestrator,
    inputs: Iterable[Mapping[str, object]],
    *,
    controls: Mapping[str, object] = _NOTHING,
    session_id: str = "offline",
) -> Iterator[StreamingOutput]:
    """Yield ``(sequence_id, artifact, value)`` for each of ``inputs``, in order; stages overlap as they do live.

    A thread takes from ``inputs`` as the pipeline has room, so that only what the pipeline holds is ahead of what was
    yielded. The pipeline stays open; its session is closed at the end, also when the caller stops early. A
    :class:`~.types.StreamingLastOutput` ends the run before ``inputs`` do. Not for use inside an event loop: there,
    ``push_inputs`` and ``outputs`` of the pipeline do the same.

    Args:
        inputs: artifact -> value, one mapping a sequence.
        controls: values of ``latest`` edges, for the whole run.
        session_id: of the session that is made for it.

    Raises:
        RuntimeError: called inside an event loop.
        SessionActiveError: the session id is in use.
        BaseException: what a stage or ``inputs`` raised, after the outputs before it.
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
        if pipeline.status(session_id) is StreamingSessionStatus.RUNNING:
            return  # all of its sequences are out, the last of which may have come before the last of the inputs
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
    """``RuntimeError`` on the thread of a running event loop."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    raise RuntimeError("run_offline blocks its thread; inside an event loop use push_inputs and outputs instead")


async def _next(outputs: AsyncIterator[StreamingOutput]) -> StreamingOutput | None:
    return await anext(outputs, None)


class _Feeder(threading.Thread):
    """Pushes all inputs; ``error`` is what ``inputs`` raised."""

    def __init__(
        self, pipeline: StreamingPipelineOrchestrator, session_id: str, inputs: Iterable[Mapping[str, object]]
    ) -> None:
        super().__init__(name=f"feed {session_id}", daemon=True)
        self.error: BaseException | None = None
        self._pipeline = pipeline
        self._session_id = session_id
        self._inputs = inputs
        self._turn = threading.Lock()  # held while it uses the session; never while it waits for inputs
        self._stopped = False

    def stop(self) -> None:
        """Never use the session again; to be called once that has been closed. Its id may be another's from here on."""
        with self._turn:
            self._stopped = True

    def run(self) -> None:
        try:
            asyncio.run(self._feed())
        except SessionEndedError:  # the reader of the outputs learns why
            return
        except BaseException as error:
            with self._turn:
                if not self._stopped:
                    self._fail(error)

    def _fail(self, error: BaseException) -> None:
        with contextlib.suppress(StreamingError, TimeoutError):  # closing the session tells what stays of it
            if self._pipeline.status(self._session_id) is StreamingSessionStatus.RUNNING:
                self.error = error
                self._pipeline.cancel_session(self._session_id)

    async def _feed(self) -> None:
        iterator = iter(self._inputs)
        following = next(iterator, _NONE_LEFT)
        sequence_id = 0
        while following is not _NONE_LEFT:
            current, following = following, next(iterator, _NONE_LEFT)
            with self._turn:
                if self._stopped:
                    return
                if following is _NONE_LEFT:
                    self._pipeline.finish_inputs(self._session_id, sequence_id)
                await self._pipeline.push_inputs(self._session_id, sequence_id, current)
            sequence_id += 1
        if sequence_id == 0:
            with self._turn:
                if not self._stopped:
                    self._pipeline.drain_session(self._session_id)
