"""The engine contract on top of a pipeline."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from typing import Any

from ..contract import AdmissionError, EngineManifest, SessionInit, StepResult
from ..errors import StepFailure
from ..inbox import Inbox
from ..monitor import ServeMonitor
from ..outbox import Outbox
from .errors import StreamingError
from .orchestrator import StreamingPipelineOrchestrator
from .rollout import Controls, FinishedChunk, Inputs, Ports, Rollout, SessionInput
from .serving import PipelineServer
from .specs import StreamingPipelineSpec
from .types import StreamingStageActor

logger = logging.getLogger(__name__)

__all__ = ["StreamingEngine"]

_CLOSE_TIMEOUT_S = 10.0
_METRICS_WINDOW = 256  # chunks of a session that a trace can go back
_WAIT_S = 5.0


class StreamingEngine:
    """Serves sessions on a graph of stages: several chunks of a session are in different stages at the same time.

    An attached session is a session of the pipeline, with its context in every :class:`~.rollout.ChunkRequest`. Its
    conditioning becomes controls (``latest`` edges), which a stage samples when it begins; each event is in one
    request. A reset closes the pipeline's session and creates it again. The next chunk is requested when the pipeline
    has room for it, no faster than ``rate_hz`` and not while the session is paused.

    When a stage raises, its session gets ``Failed`` and restarts from its context, with its current conditioning; other
    sessions are not affected. After ten failures in a row it is detached with ``Failed(fatal=True)``, as it is if a
    failed actor cannot be replaced. A stage that returns a :class:`~.types.StreamingLastOutput` ends the rollout: the
    session gets ``Finished``.

    The engine owns the actors and closes them when serving ends.

    Args:
        spec: the graph. The output of a chunk is the value of the one output artifact, or a mapping of artifacts to
            values if there are several.
        actors: stage id -> actor, or a function without arguments that creates one.
        manifest: capacity and rate. ``pipeline_depth_chunks`` stays 1, since :meth:`step` returns the chunks that it
            was called for.
        inputs: request -> input artifact -> value. ``None``: every input that is no control gets the request itself.
        controls: conditioning -> control -> value. ``None``: every control gets the whole conditioning.

    Raises:
        ValueError: the graph or the actors are not valid; names the part.
    """

    def __init__(
        self,
        spec: StreamingPipelineSpec,
        actors: Mapping[str, StreamingStageActor],
        manifest: EngineManifest,
        *,
        inputs: Inputs | None = None,
        controls: Controls | None = None,
    ) -> None:
        self._manifest = manifest
        external = [edge for edge in spec.edges if edge.source_stage is None]
        latest = frozenset(edge.artifact for edge in external if edge.kind == "latest")
        queued = frozenset(edge.artifact for edge in external) - latest
        self._ports = Ports(
            inputs=queued,
            controls=latest,
            outputs=spec.output_artifacts,
            to_inputs=inputs if inputs is not None else lambda request: dict.fromkeys(queued, request),
            to_controls=controls if controls is not None else lambda conditioning: dict.fromkeys(latest, conditioning),
        )
        self._pipeline = StreamingPipelineOrchestrator(spec, actors, metrics_window=_METRICS_WINDOW)
        self._rollouts: dict[str, Rollout] = {}  # of Level 1

    @property
    def pipeline(self) -> StreamingPipelineOrchestrator:
        """The pipeline, for its metrics and diagnostics."""
        return self._pipeline

    # -- Level 2

    async def serve(
        self,
        inbox: Inbox,
        outbox: Outbox,
        *,
        stop: asyncio.Event,
        monitor: ServeMonitor | None = None,
        max_chunks: int | None = None,
    ) -> None:
        """Serve until ``stop`` is set; then end all sessions, and close the actors and the outbox.

        Args:
            inbox: messages to apply.
            outbox: receives chunks and events.
            stop: ends the loop.
            monitor: counters to update; its ``pipeline`` has the figures of the stages.
            max_chunks: chunks after which each epoch of a session finishes; ``None``: no limit.
        """
        server = PipelineServer(
            self._pipeline,
            self._ports,
            self._manifest,
            inbox,
            outbox,
            monitor=monitor if monitor is not None else ServeMonitor(),
            max_chunks=max_chunks,
        )
        try:
            await server.run(stop)
        finally:
            outbox.close()
            await asyncio.to_thread(self._close_pipeline)

    def _close_pipeline(self) -> None:
        try:
            self._pipeline.close(_CLOSE_TIMEOUT_S)
        except TimeoutError as error:  # a stuck handler does not keep the engine from ending
            logger.error("the pipeline did not end in time: %s", error)

    # -- Level 1: one chunk after another

    def manifest(self) -> EngineManifest:
        """Capacity and rate, as given."""
        return self._manifest

    @property
    def active_sessions(self) -> int:
        """Number of sessions attached by :meth:`attach`."""
        return len(self._rollouts)

    def attach(self, init: SessionInit) -> None:
        """Admit a session.

        Raises:
            AdmissionError: all places are taken, or the pipeline cannot create the session now.
        """
        if init.session_id in self._rollouts:
            return
        if len(self._rollouts) >= self._manifest.max_sessions:
            raise AdmissionError(f"all {self._manifest.max_sessions} places are taken")
        try:
            self._rollouts[init.session_id] = Rollout(
                self._pipeline, self._ports, init.session_id, SessionInput(dict(init.context))
            )
        except StreamingError as error:
            raise AdmissionError(str(error)) from error

    def step(self, due: Mapping[str, Mapping[str, Any]]) -> list[StepResult]:
        """Make one chunk of each session; sessions are in the stages together, chunks of one session are not.

        Raises:
            StepFailure: stages failed for some sessions, which fail in every later step too until they are detached.
        """
        begun: list[str] = []
        failures: dict[str, BaseException] = {}
        for session_id in [attached for attached in self._rollouts if attached in due]:
            conditioning = dict(due[session_id])
            events = tuple(conditioning.pop("events", ()))
            rollout = self._rollouts[session_id]
            if rollout.ended:
                continue
            try:
                rollout.apply(conditioning, events, None, 0)
                if self._pipeline.try_push_inputs(session_id, *rollout.next_request()):
                    begun.append(session_id)
            except Exception as error:
                failures[session_id] = self._pipeline.error(session_id) or error
        results = [
            StepResult(session_id, chunk.output, last=chunk.last)
            for session_id in begun
            for chunk in self._finish(session_id, failures)
        ]
        if failures:
            raise StepFailure(failures, results)
        return results

    def _finish(self, session_id: str, failures: dict[str, BaseException]) -> list[FinishedChunk]:
        while not self._pipeline.wait_until_idle(session_id, timeout=_WAIT_S):
            continue  # a stage may take as long as it needs
        error = self._pipeline.error(session_id)
        if error is not None:
            failures[session_id] = error
            return []
        rollout = self._rollouts[session_id]
        chunks = (rollout.add_output(output) for output in self._pipeline.poll_outputs(session_id))
        return [chunk for chunk in chunks if chunk is not None]

    def finalize(self, session_ids: list[str]) -> None:
        """Do nothing."""

    def detach(self, session_id: str) -> None:
        """Release a session. Raises the error of a stage that does not release it."""
        if session_id in self._rollouts:
            self._pipeline.close_session(session_id)
            del self._rollouts[session_id]

    def close(self, timeout: float = 5.0) -> None:
        """Close the actors, if :meth:`serve` was not used."""
        self._pipeline.close(timeout)
