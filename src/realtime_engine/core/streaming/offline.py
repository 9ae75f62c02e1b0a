"""A pipeline without a clock: from a sequence of inputs to its outputs."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from types import MappingProxyType

from .errors import StreamingError
from .orchestrator import StreamingPipelineOrchestrator
from .outputs import StreamingOutput
from .tasks import StreamingSessionStatus

__all__ = ["run_offline"]

_NOTHING: Mapping[str, object] = MappingProxyType({})


def run_offline(
    pipeline: StreamingPipelineOrchestrator,
    inputs: Iterable[Mapping[str, object]],
    *,
    controls: Mapping[str, object] = _NOTHING,
    session_id: str = "offline",
) -> Iterator[StreamingOutput]:
    """Yield ``(sequence_id, artifact, value)`` for each of ``inputs``, in order; stages overlap as they do live.

    A thread takes from ``inputs`` as the pipeline has room, so that only what the pipeline holds is ahead of what was
    yielded. The pipeline stays open; its session is closed at the end, also when the caller stops early. Not for use
    inside an event loop: there, ``push_inputs`` and ``outputs`` of the pipeline do the same.

    Args:
        inputs: artifact -> value, one mapping a sequence.
        controls: values of ``latest`` edges, for the whole run.
        session_id: of the session that is made for it.

    Raises:
        SessionActiveError: the session id is in use.
        BaseException: what a stage or ``inputs`` raised, after the outputs before it.
    """
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
        feeder.join()
        if feeder.error is not None:
            raise feeder.error
    finally:
        loop.close()
        pipeline.close_session(session_id, timeout=60.0)


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

    def run(self) -> None:
        try:
            asyncio.run(self._feed())
        except BaseException as error:
            with contextlib.suppress(StreamingError, TimeoutError):  # closing the session tells what stays of it
                if self._pipeline.status(self._session_id) is StreamingSessionStatus.RUNNING:
                    self.error = error
                    self._pipeline.cancel_session(self._session_id)

    async def _feed(self) -> None:
        iterator = iter(self._inputs)
        following = next(iterator, None)
        if following is None:
            self._pipeline.drain_session(self._session_id)
        sequence_id = 0
        while following is not None:
            current, following = following, next(iterator, None)
            if following is None:
                self._pipeline.finish_inputs(self._session_id, sequence_id)
            await self._pipeline.push_inputs(self._session_id, sequence_id, current)
            sequence_id += 1
