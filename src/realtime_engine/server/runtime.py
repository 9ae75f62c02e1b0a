"""The state behind the routes of one server: its engine, its sessions and what they share."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from pydantic import BaseModel
from starlette.requests import HTTPConnection

from ..core.clock import MONOTONIC, NS_PER_S
from ..infra.control_log import ControlRecorder
from ..infra.copy_stats import CopyStats
from ..infra.demo import Demo
from ..infra.encoding import Encoders, choose_encoders
from ..infra.jpeg import JpegEncoder
from ..infra.recording import RecordingStore
from ..infra.telemetry.frame_latency import FrameTotals
from ..infra.telemetry.otel import SpanSender
from ..infra.telemetry.server_stats import LoopMonitor
from ..infra.webrtc import Reachability, ReachabilityKind, find_reachability
from .admission.admission import Admission
from .admission.deadlines import Deadlines
from .config import ServerConfig
from .engine_host import EngineHost, EngineState
from .metrics import Metrics, MetricSources
from .problems import Problem, loading
from .resources import ServerResources
from .revision import revision_of
from .sessions.access import Role
from .sessions.registry import Sessions
from .sessions.session import DemoSession

logger = logging.getLogger(__name__)

_READY = {"message": "Ready", "fraction": 1.0}


class Runtime:
    """The engine of a server and its sessions. Created before the event loop runs, and used on it.

    Args:
        demo: the demo that is served.
        config: the settings of the server.
        options: passed to ``demo.build``; by default ``demo.options()``.
        gallery: link to the gallery that has this demo, relative to its page; ``None`` outside of one.

    Attributes:
        demo: as given.
        config: as given.
        metrics: the Prometheus metrics; set while the server runs.
        reachability: how WebRTC viewers can reach the server; ``None`` until it is known.
        totals: frame times over all sessions.
        recordings: storage of recordings; ``None`` if recording is disabled.
        gallery: as given.
        revision: hash of the demo's description and of the page, see :func:`~.revision.revision_of`.
    """

    def __init__(self, demo: Demo, config: ServerConfig, options: BaseModel | None, gallery: str | None = None) -> None:
        self.demo = demo
        self.config = config
        self._host: EngineHost | None = None
        self.metrics: Metrics
        self.reachability: Reachability | None = None
        self.totals = FrameTotals(on_joined=SpanSender.exporting().send if config.otel else None)
        self.recordings = _recording_store(config)
        self.gallery = gallery
        self.revision = revision_of(demo)
        self._options = options
        self._sessions: Sessions | None = None
        self._admission: Admission | None = None
        self._jpeg = JpegEncoder(config.jpeg_quality)
        self._copies = CopyStats()
        self._encoders: Encoders
        self._pool: ThreadPoolExecutor
        self._recorder: ControlRecorder | None = None

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Load and run the engine inside the context; on exit everything ends, in bounded time."""
        self._recorder = self._control_recorder()
        self._host = EngineHost(self.demo, self._options, self._recorder)
        loop_monitor = LoopMonitor()
        self.metrics = Metrics(
            MetricSources(
                self.host, loop_monitor, self._copies, lambda: self._sessions, lambda: self._admission, self.totals
            )
        )
        self._encoders = await asyncio.to_thread(choose_encoders, self.config.encoder, self._copies)
        self._pool = ThreadPoolExecutor(os.cpu_count() or 1, thread_name_prefix="media")
        engine = asyncio.create_task(self.host.run(), name="engine")
        route = asyncio.create_task(self._find_reachability(), name="find the WebRTC reachability")
        loop_monitor.start()
        try:
            yield
        finally:
            await self._shut_down(engine)
            await route  # ends soon; cancelled, it would leave sockets open
            loop_monitor.stop()

    @property
    def host(self) -> EngineHost:
        """Loads and runs the engine.

        Raises:
            RuntimeError: the application was not started.
        """
        if self._host is None:
            raise RuntimeError(
                "the application was not started: an application that mounts it enters "
                "demo_app.router.lifespan_context(demo_app) in its own lifespan"
            )
        return self._host

    @property
    def sessions(self) -> Sessions:
        """The sessions of the engine.

        Raises:
            Problem: the engine is loading (503) or has failed (500).
        """
        host = self.host
        if host.state is EngineState.FAILED:
            raise Problem("engine-failed", host.error or "The model failed.")
        if host.manifest is None:
            raise loading(host.progress.message)
        if self._sessions is None:
            resources = ServerResources(
                demo=self.demo,
                config=self.config,
                manifest=host.manifest,
                inbox=host.inbox,
                outbox=host.outbox,
                monitor=host.monitor,
                jpeg=self._jpeg,
                pool=self._pool,
                encoders=self._encoders,
                copies=self._copies,
                totals=self.totals,
                recordings=self.recordings,
                recorder=self._recorder,
            )
            self._sessions = Sessions(resources)
        return self._sessions

    @property
    def admission(self) -> Admission:
        """Who gets a session.

        Raises:
            Problem: as :attr:`sessions`.
        """
        sessions = self.sessions
        if self._admission is None:
            deadlines = None
            if self.config.admission == "deadline":
                assert self.host.manifest is not None  # there are sessions
                deadlines = Deadlines(self.host.monitor, NS_PER_S / self.host.manifest.rate_hz, MONOTONIC)
            self._admission = Admission(sessions, self.config, MONOTONIC, deadlines=deadlines)
        return self._admission

    @property
    def is_stalled(self) -> bool:
        """Whether the engine has not responded for ``stall_timeout_s``."""
        return self._sessions is not None and self._sessions.stalled_s > self.config.stall_timeout_s

    @property
    def running_sessions(self) -> list[DemoSession]:
        """The sessions that are admitted and not ending, oldest first; none unless the engine is ready."""
        return [] if self._sessions is None else self._sessions.all()

    @property
    def waiting(self) -> int:
        """Number of clients in the waiting line."""
        return 0 if self._admission is None else self._admission.waiting

    @property
    def is_in_use(self) -> bool:
        """Whether the engine is loading, or has sessions or clients that wait for one."""
        has_sessions = self._sessions is not None and self._sessions.occupied > 0
        return self.host.state is EngineState.LOADING or has_sessions or self.waiting > 0

    def session(self, session_id: str, token: str | None, role: Role = Role.OWNER) -> DemoSession:
        """The session with this id, for a client whose token gives it this role or a higher one.

        Raises:
            Problem: as :meth:`Sessions.get`.
        """
        return self._existing_sessions(session_id).get(session_id, token, role)

    def find_session(self, session_id: str, token: str | None, role: Role = Role.OWNER) -> DemoSession | None:
        """As :meth:`session`, until the engine has detached it; ``None`` afterwards.

        Raises:
            Problem: as :meth:`Sessions.find`.
        """
        return self._existing_sessions(session_id).find(session_id, token, role)

    @property
    def has_lobby(self) -> bool:
        """Whether all clients may see and watch the running sessions."""
        chosen = self.config.lobby
        return chosen == "on" or (chosen == "auto" and self.demo.takes_video is None)

    def is_invited(self, secret: str | None) -> bool:
        """Whether a secret is that of an invitation to a running session."""
        if secret is None or self._sessions is None:
            return False
        try:
            self._sessions.invited(secret)
        except Problem:
            return False
        return True

    def end_streams(self) -> None:
        """End all responses and connections that have no end of their own."""
        if self._sessions is not None:
            self._sessions.close_streams()
        if self._admission is not None:
            self._admission.close()

    def progress(self) -> dict[str, Any]:
        """The progress of loading, for the page."""
        return dict(_READY) if self.host.state is EngineState.READY else self.host.progress._asdict()

    def _control_recorder(self) -> ControlRecorder | None:
        if self.config.record_controls is None:
            return None
        options = self._options or (None if self.demo.options is None else self.demo.options())
        return ControlRecorder(self.config.record_controls, self.demo.name, options)

    async def _find_reachability(self) -> None:
        self.reachability = await find_reachability(self.config.ice, page_on_loopback=self.config.is_loopback)
        is_limited = self.reachability.kind is ReachabilityKind.NONE or bool(self.reachability.silent)
        logger.log(logging.WARNING if is_limited else logging.INFO, "WebRTC: %s", self.reachability)

    def _existing_sessions(self, session_id: str) -> Sessions:
        if self._sessions is None:
            raise Problem("no-session", f"There is no session {session_id!r}.")
        return self._sessions

    async def _shut_down(self, engine: asyncio.Task[None]) -> None:
        timeout_s = self.config.shutdown_timeout_s
        if self._sessions is not None:
            await self._sessions.close(timeout_s / 2)
        self.host.stop()
        if self.host.state is EngineState.LOADING:
            engine.cancel()
        _, unfinished = await asyncio.wait({engine}, timeout=timeout_s / 2)
        if unfinished:
            logger.error("the engine did not stop within %.1f s; its current step is abandoned", timeout_s / 2)
            await _abandon(engine)
        self._pool.shutdown(wait=False, cancel_futures=True)
        if self._recorder is not None:
            await asyncio.to_thread(self._recorder.close)


def runtime_of(connection: HTTPConnection) -> Runtime:
    """The runtime of the application that handles this connection."""
    runtime = connection.app.state.runtime
    assert isinstance(runtime, Runtime)
    return runtime


def _recording_store(config: ServerConfig) -> RecordingStore | None:
    if config.recordings is None:
        return None
    return RecordingStore(
        Path(config.recordings),
        max_bytes=config.recording_max_bytes,
        max_total_bytes=config.recordings_max_bytes,
    )


async def _abandon(engine: asyncio.Task[None]) -> None:
    """Cancel until the task ends: the first cancel still waits for the step, the second does not."""
    while not engine.done():
        engine.cancel()
        await asyncio.wait({engine}, timeout=0.05)
