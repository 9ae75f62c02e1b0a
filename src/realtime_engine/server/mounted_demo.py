"""One of several demos of a server: loaded at its first use, unloaded when idle."""

from __future__ import annotations

import asyncio
import enum
import gc
import logging
from dataclasses import dataclass

from fastapi import FastAPI, WebSocket
from prometheus_client.core import Metric
from starlette.types import Receive, Scope, Send

from ..core.clock import NS_PER_S, Clock
from ..core.errors import describe
from ..infra.demo import Demo
from .app import build_app
from .config import ServerConfig
from .engine_host import EngineState
from .metrics import readiness
from .problems import Problem
from .runtime import Runtime
from .security import refuse_handshake

logger = logging.getLogger(__name__)

_MONITORING = ("/healthz", "/readyz", "/metrics")  # does not count as use
_PAGE_API = "/api/demo"
_FIRST_BACK_OFF_S = 2.0
_MAX_BACK_OFF_S = 60.0
_STABLE_S = 60.0  # a failure later than this after the start of loading is the first one of a new row


class DemoState(str, enum.Enum):
    """The state of a demo: that of its engine, or ``unloaded``."""

    UNLOADED = "unloaded"
    LOADING = "loading"
    READY = "ready"
    FAILED = "failed"


@dataclass(eq=False)
class _Run:
    """The application from its load to its unload.

    Attributes:
        app: the application.
        started: done when the application has started, with its error if it cannot.
        stop: set when it is to be unloaded.
        began_ns: when the load began.
        task: runs the application.
    """

    app: FastAPI
    started: asyncio.Future[None]
    stop: asyncio.Event
    began_ns: int
    task: asyncio.Task[None]


@dataclass(frozen=True)
class _Failure:
    """Why a demo failed, and from when on its next use loads it again."""

    reason: str
    retry_ns: int


class MountedDemo:
    """An ASGI application that starts the application of a demo at its first request. Belongs to one event loop.

    Each load has an engine, sessions and a waiting line of its own. A demo that has failed is loaded again at its first
    use after a back-off. Until then its page shows the reason, and its API answers 503 ``demo-failed``.

    Args:
        name: its name in the paths of the server.
        demo: the demo.
        config: the settings of the server.
        clock: the current time.

    Attributes:
        name: as given.
        demo: as given.

    Raises:
        FileNotFoundError, ImportError, AttributeError, TypeError: as :func:`~.app.create_app`.
    """

    def __init__(self, name: str, demo: Demo, config: ServerConfig, clock: Clock) -> None:
        self.name = name
        self.demo = demo
        self._config = config
        self._clock = clock
        self._app: FastAPI | None = self._create_app()  # reports mistakes before the first use
        self._run: _Run | None = None
        self._changing = asyncio.Lock()  # held while the demo is loaded or unloaded
        self._requests = 0
        self._used_ns = 0
        self._failure: _Failure | None = None
        self._failures = 0  # in a row
        self._picture: bytes | None = None
        self._closing = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request, after the demo was loaded if it is not."""
        path = scope["path"].removeprefix(scope.get("root_path", ""))
        is_use = path not in _MONITORING
        try:
            app = await self._enter(path) if is_use else self._loaded_app()
        except Problem as problem:
            if scope["type"] == "websocket":
                await refuse_handshake(WebSocket(scope, receive, send), problem)
            else:
                await problem.response()(scope, receive, send)
            return
        try:
            await app(scope, receive, send)
        finally:
            if is_use:
                self._requests -= 1
                self._used_ns = self._clock.now_ns()

    @property
    def state(self) -> DemoState:
        """The state of the demo."""
        self._note_failure()
        if self._failure is not None:
            return DemoState.FAILED
        if self._run is None:
            return DemoState.UNLOADED
        runtime = self.runtime
        return DemoState.LOADING if runtime is None else DemoState(runtime.host.state.value)

    @property
    def error(self) -> str | None:
        """Why the demo failed; ``None`` if it has not."""
        self._note_failure()
        return None if self._failure is None else self._failure.reason

    @property
    def runtime(self) -> Runtime | None:
        """The engine and the sessions of the demo; ``None`` unless it was started."""
        run = self._run
        if run is None or not run.started.done() or run.started.exception() is not None:
            return None
        runtime = run.app.state.runtime
        assert isinstance(runtime, Runtime)
        return runtime

    @property
    def has_picture(self) -> bool:
        """Whether :meth:`picture` may have one."""
        return self._picture is not None or self._is_shown()

    async def picture(self) -> bytes | None:
        """A small JPEG of the newest session, or the last one that was taken; ``None`` without a lobby or a frame."""
        runtime = self.runtime
        if runtime is not None and self._is_shown():
            taken = await runtime.running_sessions[-1].media.thumbnails.get()
            self._picture = taken or self._picture
        return self._picture

    def metrics(self) -> list[Metric]:
        """The metrics of a demo that is loaded; of one that has failed at least that it is not ready."""
        runtime = self.runtime
        if runtime is not None:
            return list(runtime.metrics.families())
        return [readiness(False)] if self._failure is not None else []

    async def review(self) -> None:
        """Unload the demo if it was not used for ``unload_after_s``."""
        if self._is_idle():
            async with self._changing:
                if self._is_idle():  # no request has come in between
                    logger.info("demo %r is idle and is unloaded", self.name)
                    await self._unload()

    def end_streams(self) -> None:
        """Answer no further requests, and end all responses and connections that have no end of their own."""
        self._closing = True
        runtime = self.runtime
        if runtime is not None:
            runtime.end_streams()

    async def close(self) -> None:
        """Unload the demo for good."""
        self.end_streams()
        async with self._changing:
            await self._unload()

    # -- requests

    async def _enter(self, path: str) -> FastAPI:
        """The running application, which is not unloaded until the request has ended."""
        async with self._changing:
            if self._closing:
                raise Problem("closing", "The server is shutting down.", headers={"Retry-After": "5"})
            self._note_failure()
            is_over = self._failure is not None and self._clock.now_ns() >= self._failure.retry_ns
            if is_over or (self._run is not None and self._run.stop.is_set()):  # an unload that was interrupted
                await self._unload()
            self._check_failure(path, is_over)
            run = self._run if self._run is not None else self._load()
            await self._until_started(run)
            self._requests += 1
            return run.app

    def _check_failure(self, path: str, is_over: bool) -> None:
        """During the back-off, the page and the description of a failed engine are served, to show the reason."""
        if self._failure is None or is_over:
            return
        is_page = path == _PAGE_API or not path.startswith("/api/")
        if self._run is None or not is_page:
            raise self._failed(self._failure)

    def _failed(self, failure: _Failure) -> Problem:
        delay_s = max(0, failure.retry_ns - self._clock.now_ns()) / NS_PER_S
        return Problem("demo-failed", failure.reason, headers={"Retry-After": str(int(delay_s) + 1)})

    def _loaded_app(self) -> FastAPI:
        if self.runtime is None or self._run is None:
            raise Problem("unloaded", "The demo is loaded at its first use.")
        return self._run.app

    # -- life cycle

    def _is_idle(self) -> bool:
        self._note_failure()
        run, runtime, limit_s = self._run, self.runtime, self._config.unload_after_s
        if run is None or limit_s is None:
            return False
        if self._requests or (runtime is not None and runtime.is_in_use):
            self._used_ns = self._clock.now_ns()
        return self._clock.now_ns() - self._used_ns >= limit_s * NS_PER_S

    def _load(self) -> _Run:
        logger.info("demo %r is loaded", self.name)
        self._failure = None
        app = self._app or self._create_app()
        self._app = None
        started: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        stop = asyncio.Event()
        task = asyncio.create_task(_live(app, started, stop), name=f"demo {self.name}")
        self._used_ns = self._clock.now_ns()
        self._run = _Run(app, started, stop, self._used_ns, task)
        return self._run

    async def _until_started(self, run: _Run) -> None:
        try:
            await asyncio.shield(run.started)
        except Exception as error:  # a start may raise anything, and concerns this demo alone
            logger.exception("demo %r cannot be started", self.name)
            self._fail(describe(error), run)
            await self._unload()
            assert self._failure is not None
            raise self._failed(self._failure) from error

    async def _unload(self) -> None:
        """Stop the engine and release its memory; may be repeated if it was interrupted."""
        run = self._run
        if run is None:
            return
        run.stop.set()
        await asyncio.shield(run.task)
        self._run = None
        del run
        gc.collect()  # engines have reference cycles, and hold memory of which the collector knows nothing

    def _note_failure(self) -> None:
        run, runtime = self._run, self.runtime
        if run is None or runtime is None or self._failure is not None:
            return
        if runtime.host.state is EngineState.FAILED:
            self._fail(runtime.host.error or "The model failed.", run)

    def _fail(self, reason: str, run: _Run) -> None:
        now_ns = self._clock.now_ns()
        self._failures = 1 if now_ns - run.began_ns >= _STABLE_S * NS_PER_S else self._failures + 1
        back_off_s = min(_FIRST_BACK_OFF_S * 2 ** (self._failures - 1), _MAX_BACK_OFF_S)
        self._failure = _Failure(reason, now_ns + round(back_off_s * NS_PER_S))

    def _is_shown(self) -> bool:
        runtime = self.runtime
        return runtime is not None and runtime.has_lobby and bool(runtime.running_sessions)

    def _create_app(self) -> FastAPI:
        return build_app(self.demo, self._config, gallery="../../")


async def _live(app: FastAPI, started: asyncio.Future[None], stop: asyncio.Event) -> None:
    """Run an application until ``stop``. Never raises; an error of the start is that of ``started``."""
    try:
        async with app.router.lifespan_context(app):
            started.set_result(None)
            await stop.wait()
    except Exception as error:
        if not started.done():
            started.set_exception(error)
        else:
            logger.exception("the end of %r failed", app.title)
