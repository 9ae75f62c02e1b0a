"""Level 2 of the contract: the shared loop, and the choice between it and an engine's own."""

from __future__ import annotations

import asyncio
import inspect
import math
import threading
from collections.abc import Callable
from typing import Any

from .clock import MONOTONIC, Clock
from .contract import RealtimeInterface
from .errors import EngineContractError
from .inbox import Inbox
from .monitor import ServeMonitor
from .outbox import Outbox
from .serve_loop import ServeLoop
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
    """Serve a Level 1 engine until ``stop`` is set; then finish the tick, detach everyone and close the outbox.

    The engine lives on one thread of its own, and every call of it comes from there: the event loop of the caller never
    waits for a step. Cancelling the task stops in the same way; a second cancel does not wait for the tick to end.

    Args:
        tick_interval_s: seconds between chunks; ``None`` follows the manifest's ``rate_hz``, 0 runs flat out.
        clock: time, for tests.
        monitor: counters to be read while the loop runs.
        max_consecutive_failures: after so many failed steps in a row a session is given up.
        max_chunks: chunks after which each epoch of a session finishes, if its rollout does not end before; ``None``:
            no limit.

    Raises:
        Exception: what ``engine.manifest()`` raised. Nothing that a hook raises later ends the loop.
    """
    _check_arguments(stop, outbox, tick_interval_s, max_consecutive_failures, max_chunks)
    serving = ServeLoop(
        engine,
        inbox,
        outbox,
        tick_interval_s=tick_interval_s,
        clock=clock,
        monitor=monitor if monitor is not None else ServeMonitor(),
        max_consecutive_failures=max_consecutive_failures,
        max_chunks=max_chunks,
    )
    ended = _run_on_thread(serving)
    stopped = asyncio.ensure_future(stop.wait())
    watched: set[asyncio.Future[Any]] = {ended, stopped}
    try:
        await asyncio.wait(watched, return_when=asyncio.FIRST_COMPLETED)
    finally:
        stopped.cancel()
        serving.request_stop()
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
        stop: ends the engine when it is set.
        monitor: counters to be read while the engine runs; an own ``serve`` gets it if its signature accepts it.
        max_chunks: chunks after which each epoch of a session finishes; ``None``: no limit.
        options: further arguments of whichever ``serve`` it is.

    Raises:
        EngineContractError: the engine's own ``serve`` is no coroutine function, or does not accept ``max_chunks`` and
            a limit is given.
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


def _run_on_thread(serving: ServeLoop) -> asyncio.Future[None]:
    loop = asyncio.get_running_loop()
    ended: asyncio.Future[None] = loop.create_future()

    def finish(error: BaseException | None) -> None:
        if ended.done():
            return
        if error is None:
            ended.set_result(None)
        elif isinstance(error, StopIteration):  # no future takes one
            ended.set_exception(RuntimeError("engine.manifest() raised StopIteration"))
        else:
            ended.set_exception(error)

    def main() -> None:
        error: BaseException | None = None
        try:
            serving.run()
        except BaseException as raised:
            error = raised
        call_soon(loop, finish, error)

    threading.Thread(target=main, name="realtime-engine", daemon=True).start()
    return ended


def _check_arguments(
    stop: asyncio.Event,
    outbox: Outbox,
    tick_interval_s: float | None,
    max_consecutive_failures: int,
    max_chunks: int | None,
) -> None:
    if not isinstance(stop, asyncio.Event):
        raise TypeError(f"stop must be an asyncio.Event, got {stop!r}")
    if outbox.closed:
        raise ValueError("the outbox is closed already: each serve loop needs a new one")
    if tick_interval_s is not None and not (math.isfinite(tick_interval_s) and tick_interval_s >= 0):
        raise ValueError(f"tick_interval_s must be a finite number of seconds, 0 or more, got {tick_interval_s!r}")
    if max_consecutive_failures < 1:
        raise ValueError(f"max_consecutive_failures must be 1 or more, got {max_consecutive_failures!r}")
    if max_chunks is not None and max_chunks < 1:
        raise ValueError(f"max_chunks must be 1 or more, or None for no limit, got {max_chunks!r}")
