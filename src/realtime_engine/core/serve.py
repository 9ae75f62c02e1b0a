"""Level 2 of the contract: the default loop, and the choice between it and an engine's own."""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Callable
from typing import Any

from .clock import MONOTONIC, Clock
from .contract import RealtimeInterface
from .errors import EngineContractError
from .inbox import Inbox
from .monitor import ServeMonitor
from .outbox import Outbox
from .serve_loop import ServeLoop, ServeOptions
from .waiters import call_soon

__all__ = ["default_serve", "run_engine"]


async def default_serve(
    engine: RealtimeInterface,
    inbox: Inbox,
    outbox: Outbox,
    *,
    stop: asyncio.Event,
    tick_interval_s: float | None = None,
    clock: Clock = MONOTONIC,
    monitor: ServeMonitor | None = None,
    max_consecutive_failures: int = 10,
    max_chunks: int | None = None,
) -> None:
    """Serve a Level 1 engine until ``stop`` is set; then finish the tick, detach all sessions and close the outbox.

    The engine is called from one thread of its own, so the caller's event loop never waits for a step. Cancelling the
    task stops in the same way; a second cancel does not wait for the end of the tick.

    Args:
        engine: Level 1 of the contract.
        inbox: messages to apply.
        outbox: receives chunks and events.
        stop: ends the loop when it is set.
        tick_interval_s: seconds between chunks; ``None`` follows the manifest's ``rate_hz``, 0 runs flat out.
        clock: time, for tests.
        monitor: counters to be read while the loop runs.
        max_consecutive_failures: failed steps in a row after which a session is ended.
        max_chunks: chunks after which each epoch of a session finishes, unless its rollout ends before; ``None``: no
            limit.

    Raises:
        TypeError: ``stop`` is not an ``asyncio.Event``.
        ValueError: the outbox is closed, or an option is out of range.
        Exception: what ``engine.manifest()`` raised. No later failure of a hook ends the loop.
    """
    if not isinstance(stop, asyncio.Event):
        raise TypeError(f"stop must be an asyncio.Event, got {stop!r}")
    if outbox.closed:
        raise ValueError("the outbox is closed already: each serve loop needs a new one")
    options = ServeOptions(tick_interval_s, max_consecutive_failures, max_chunks)
    loop = ServeLoop(
        engine, inbox, outbox, options, clock=clock, monitor=monitor if monitor is not None else ServeMonitor()
    )
    ended = _run_on_thread(loop)
    stopped = asyncio.ensure_future(stop.wait())
    watched: set[asyncio.Future[Any]] = {ended, stopped}
    try:
        await asyncio.wait(watched, return_when=asyncio.FIRST_COMPLETED)
    finally:
        stopped.cancel()
        loop.request_stop()
        await asyncio.shield(ended)


async def run_engine(
    engine: Any,
    inbox: Inbox,
    outbox: Outbox,
    *,
    stop: asyncio.Event,
    monitor: ServeMonitor | None = None,
    max_chunks: int | None = None,
    **options: Any,
) -> None:
    """Drive an engine by its own ``serve`` if it has one, else by :func:`default_serve`.

    The outbox is closed when this returns or raises.

    Args:
        engine: Level 1 or Level 2 of the contract.
        inbox: messages to apply.
        outbox: receives chunks and events.
        stop: ends the engine when it is set.
        monitor: counters to be read while the engine runs; an own ``serve`` gets it if its signature accepts it.
        max_chunks: chunks after which each epoch of a session finishes; ``None``: no limit.
        options: further arguments of whichever ``serve`` it is.

    Raises:
        EngineContractError: the engine's own ``serve`` is not ``async def``, or does not accept ``max_chunks`` and a
            limit is given.
    """
    serve = getattr(engine, "serve", None)
    try:
        if not callable(serve):
            await default_serve(engine, inbox, outbox, stop=stop, monitor=monitor, max_chunks=max_chunks, **options)
            return
        if monitor is not None and _accepts(serve, "monitor"):
            options["monitor"] = monitor
        if max_chunks is not None:
            if not _accepts(serve, "max_chunks"):
                raise EngineContractError(f"{type(engine).__name__}.serve does not accept max_chunks")
            options["max_chunks"] = max_chunks
        serving = serve(inbox, outbox, stop=stop, **options)
        if not inspect.isawaitable(serving):
            raise EngineContractError(f"{type(engine).__name__}.serve must be async def, it returned {serving!r}")
        await serving
    finally:
        outbox.close()


def _accepts(serve: Callable[..., Any], name: str) -> bool:
    """Whether ``serve`` takes a keyword argument of this name."""
    parameters = inspect.signature(serve).parameters.values()
    kinds = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    return any(
        parameter.kind is inspect.Parameter.VAR_KEYWORD or (parameter.name == name and parameter.kind in kinds)
        for parameter in parameters
    )


def _run_on_thread(loop: ServeLoop) -> asyncio.Future[None]:
    event_loop = asyncio.get_running_loop()
    ended: asyncio.Future[None] = event_loop.create_future()

    def finish(error: BaseException | None) -> None:
        if ended.done():
            return
        if error is None:
            ended.set_result(None)
        elif isinstance(error, StopIteration):  # a future does not accept one
            ended.set_exception(RuntimeError("engine.manifest() raised StopIteration"))
        else:
            ended.set_exception(error)

    def main() -> None:
        error: BaseException | None = None
        try:
            loop.run()
        except BaseException as raised:
            error = raised
        call_soon(event_loop, finish, error)

    threading.Thread(target=main, name="realtime-engine", daemon=True).start()
    return ended
