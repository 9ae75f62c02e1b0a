"""Everything behind the routes of one server, from its start to its end."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from fastapi import Request
from pydantic import BaseModel
from starlette.requests import HTTPConnection

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
from .config import ServerConfig
from .engine_host import EngineHost, EngineState
from .metrics import Measured, Metrics
from .problems import Problem
from .resources import ServerResources
from .sessions.registry import Sessions
from .sessions.session import DemoSession

logger = logging.getLogger(__name__)

_READY = {"message": "Ready", "fraction": 1.0}


class Runtime:
    """The engine, its sessions and what they share. Made before the event loop runs, used on it.

    Attributes:
        host: set while the server runs.
        totals: the times of the frames of all sessions.
        recordings: where they are kept; ``None`` if there are none.
        route: which way viewers will come by WebRTC; ``None`` until it is known.
    """

    def __init__(self, demo: Demo, config: ServerConfig, options: BaseModel | None) -> None:
        self.demo = demo
        self.config = config
        self.options = options
        self.host: EngineHost
        self.metrics: Metrics
        self.route: Reachability | None = None
        self._sessions: Sessions | None = None
        self._jpeg = JpegEncoder(config.jpeg_quality)
        self._copies = CopyStats()
        self.totals = FrameTotals(on_joined=SpanSender.exporting().send if config.otel else None)
        self.recordings = _store(config)
        self._encoders: Encoders
        self._pool: ThreadPoolExecutor
        self._recorder: ControlRecorder | None = None

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Load and run the engine for as long as this is entered; everything has ended afterwards, in bounded time."""
        if self.config.record_controls is not None:
            options = self.options or (None if self.demo.options is None else self.demo.options())
            self._recorder = ControlRecorder(self.config.record_controls, self.demo.name, options)
        self.host = EngineHost(self.demo, self.options, self._recorder)
        lateness = LoopMonitor()
        self.metrics = Metrics(Measured(self.host, lateness, self._copies, lambda: self._sessions, self.totals))
        self._encoders = await asyncio.to_thread(choose_encoders, self.config.encoder, self._copies)
        self._pool = ThreadPoolExecutor(os.cpu_count() or 1, thread_name_prefix="media")
        engine = asyncio.create_task(self.host.run(), name="engine")
        route = asyncio.create_task(self._find_reachability(), name="find the route of viewers")
        lateness.start()
        try:
            yield
        finally:
            await self._end(engine)
            await route  # which ends by itself, soon: cut off, it would leave sockets open
            lateness.stop()

    @property
    def sessions(self) -> Sessions:
        """Errors: :class:`Problem` while the engine loads (503), and when it has failed (500)."""
        host = self.host
        if host.state is EngineState.FAILED:
            raise Problem("engine-failed", host.error or "The model failed.")
        if host.manifest is None:
            raise Problem("loading", "The model is loading.", headers={"Retry-After": "1"})
        if self._sessions is None:
            equipment = ServerResources(
                self.demo,
                self.config,
                host.manifest,
                host.inbox,
                host.outbox,
                self._jpeg,
                self._pool,
                self._encoders,
                self._copies,
                self.totals,
                self.recordings,
                self._recorder,
            )
            self._sessions = Sessions(equipment)
        return self._sessions

    def session(self, session_id: str, token: str | None) -> DemoSession:
        """The session that ``token`` opens. Errors: :class:`Problem`."""
        return self._had(session_id).get(session_id, token)

    def find_session(self, session_id: str, token: str | None) -> DemoSession | None:
        """As :meth:`session`, until the engine has let go of it; ``None`` from then on."""
        return self._had(session_id).find(session_id, token)

    @property
    def is_stalled(self) -> bool:
        """Whether the engine has been at one step for long."""
        return self._sessions is not None and self._sessions.stalled_s > self.config.stall_timeout_s

    def end_streams(self) -> None:
        """Let responses and connections that would never end by themselves come to an end."""
        if self._sessions is not None:
            self._sessions.begin_close()

    def progress(self) -> dict[str, Any]:
        """What the page shows while it waits."""
        return dict(_READY) if self.host.state is EngineState.READY else self.host.progress._asdict()

    async def _find_reachability(self) -> None:
        self.route = await find_reachability(self.config.ice, page_on_loopback=self.config.is_loopback)
        is_wanting = self.route.kind is ReachabilityKind.NONE or bool(self.route.silent)
        logger.log(logging.WARNING if is_wanting else logging.INFO, "WebRTC: %s", self.route)

    def _had(self, session_id: str) -> Sessions:
        if self._sessions is None:
            raise Problem("no-session", f"There is no session {session_id!r}.")
        return self._sessions

    async def _end(self, engine: asyncio.Task[None]) -> None:
        timeout_s = self.config.shutdown_timeout_s
        if self._sessions is not None:
            await self._sessions.close(timeout_s / 2)
        self.host.stop()
        if self.host.state is EngineState.LOADING:
            engine.cancel()
        _, unfinished = await asyncio.wait({engine}, timeout=timeout_s / 2)
        if unfinished:
            logger.error("the engine did not end within %.1f s: its step goes on and is left alone", timeout_s / 2)
            await _abandon(engine)
        self._pool.shutdown(wait=False, cancel_futures=True)
        if self._recorder is not None:
            await asyncio.to_thread(self._recorder.close)


def _store(config: ServerConfig) -> RecordingStore | None:
    if config.recordings is None:
        return None
    return RecordingStore(
        Path(config.recordings),
        max_bytes=config.recording_max_bytes,
        max_total_bytes=config.recordings_max_bytes,
    )


async def _abandon(engine: asyncio.Task[None]) -> None:
    """The first cancel still waits for the step to end, the second does not."""
    while not engine.done():
        engine.cancel()
        await asyncio.wait({engine}, timeout=0.05)


def runtime_of(connection: HTTPConnection) -> Runtime:
    """The runtime behind the app that serves this connection."""
    runtime = connection.app.state.runtime
    assert isinstance(runtime, Runtime)
    return runtime


def get_runtime(request: Request) -> Runtime:
    """:func:`runtime_of` as a dependency of routes."""
    return runtime_of(request)
