"""Runs the engine inside the server: loads it on a thread while HTTP is already up, then serves until shutdown."""

from __future__ import annotations

import asyncio
import enum
import logging
import threading
from collections.abc import Callable
from typing import NamedTuple

from pydantic import BaseModel

from ..core.contract import EngineManifest, RealtimeInterface
from ..core.errors import RealtimeEngineError, describe
from ..core.inbox import Inbox
from ..core.monitor import ServeMonitor
from ..core.outbox import Outbox
from ..core.serve import run_engine
from ..core.waiters import call_soon
from ..infra.control_log import ControlRecorder
from ..infra.demo import Demo
from ..infra.extras import MissingDependencyError
from ..infra.loading import LoadProgress, listening_to_progress

logger = logging.getLogger(__name__)

LOADER = "load the model"
"""The name of the thread that builds the engine."""

_MAX_UNREAD_CHUNKS = 8
_EXPECTED = (RealtimeEngineError, MissingDependencyError)  # logged without a traceback: the message says what to do


class EngineState(str, enum.Enum):
    """The state of the engine."""

    LOADING = "loading"
    READY = "ready"
    FAILED = "failed"


class _Built(NamedTuple):
    engine: RealtimeInterface
    manifest: EngineManifest


class EngineHost:
    """Loads and runs the engine of a demo.

    Args:
        demo: the demo.
        options: passed to ``demo.build``.
        recorder: records control logs; ``None`` if control logging is disabled.

    Attributes:
        inbox: messages to the engine.
        outbox: chunks and events from the engine.
        monitor: counters of its loop; an engine with its own ``serve`` updates them if that accepts ``monitor``.
        state: whether the engine is loading, ready or failed.
        manifest: what the engine declares; ``None`` until it is ready.
        error: why it failed, a line for people; ``None`` if it has not.
        progress: the progress of loading, as the model reports it.
    """

    def __init__(self, demo: Demo, options: BaseModel | None, recorder: ControlRecorder | None = None) -> None:
        self.inbox = Inbox()
        self.outbox = Outbox(maxsize=_MAX_UNREAD_CHUNKS) if recorder is None else recorder.outbox(_MAX_UNREAD_CHUNKS)
        self.monitor = ServeMonitor()
        self.state = EngineState.LOADING
        self.manifest: EngineManifest | None = None
        self.error: str | None = None
        self.progress = LoadProgress("Loading the model", None)
        self._demo = demo
        self._options = options
        self._stop = asyncio.Event()

    async def run(self) -> None:
        """Load the engine and run it until :meth:`stop`. Never raises; :attr:`state` has the outcome."""
        try:
            built = await _on_thread(self._build)
            self.manifest = built.manifest
            self.state = EngineState.READY
            logger.info("the model of demo %r is ready", self._demo.name)
            await self._serve(built.engine)
        except Exception as error:  # a model may raise anything, and the server must report it
            reason = describe(error)
            trace = None if isinstance(error, _EXPECTED) else error
            logger.error("the model of demo %r failed: %s", self._demo.name, reason, exc_info=trace)
            self._fail(reason)
        else:
            if not self._stop.is_set():
                logger.error("the engine of demo %r stopped unexpectedly", self._demo.name)
                self._fail("the engine stopped unexpectedly")
        finally:
            self.outbox.close()

    def stop(self) -> None:
        """Stop the engine after its current step."""
        self._stop.set()

    def _build(self) -> _Built:
        with listening_to_progress(self._on_progress):
            engine = self._demo.build_engine(self._options)
        return _Built(engine, engine.manifest())

    def _on_progress(self, progress: LoadProgress) -> None:
        self.progress = progress

    async def _serve(self, engine: RealtimeInterface) -> None:
        await run_engine(
            engine,
            self.inbox,
            self.outbox,
            stop=self._stop,
            monitor=self.monitor,
            max_chunks=self._demo.max_chunks,
        )

    def _fail(self, error: str) -> None:
        self.state = EngineState.FAILED
        self.error = error


def is_loading() -> bool:
    """Whether a thread of this process loads a model. It may outlive the server that it loads for."""
    return any(thread.name == LOADER for thread in threading.enumerate())


async def _on_thread(build: Callable[[], _Built]) -> _Built:
    """Run ``build`` on a daemon thread, so that a model that loads for minutes does not delay the shutdown."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[_Built] = loop.create_future()

    def finish(built: _Built | None, error: Exception | None) -> None:
        if done.done():
            return
        if built is not None:
            done.set_result(built)
        elif error is not None:
            done.set_exception(error)

    def main() -> None:
        try:
            built = build()
        except Exception as error:
            call_soon(loop, finish, None, error)
        except BaseException as error:  # such as SystemExit in a model's own start-up code
            call_soon(loop, finish, None, RuntimeError(describe(error)))
        else:
            call_soon(loop, finish, built, None)

    threading.Thread(target=main, name=LOADER, daemon=True).start()
    return await done
