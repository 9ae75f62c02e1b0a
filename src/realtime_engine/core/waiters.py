"""Queues of waiting tasks of any event loop, woken from any thread."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any, TypeAlias

Waiter: TypeAlias = tuple[asyncio.AbstractEventLoop, "asyncio.Future[None]"]


def enlist(line: deque[Waiter]) -> Waiter:
    """Append the running task to ``line``; it then awaits the future of the waiter."""
    loop = asyncio.get_running_loop()
    waiter = (loop, loop.create_future())
    line.append(waiter)
    return waiter


def next_in(line: deque[Waiter], woken: list[Waiter]) -> None:
    """Move the first waiter whose event loop is open from ``line`` to ``woken``."""
    while line:
        waiter = line.popleft()
        if not waiter[0].is_closed():
            woken.append(waiter)
            return


def wake(waiters: list[Waiter]) -> None:
    """Wake tasks, with one call into each event loop."""
    by_loop: dict[asyncio.AbstractEventLoop, list[asyncio.Future[None]]] = {}
    for loop, future in waiters:
        by_loop.setdefault(loop, []).append(future)
    for loop, futures in by_loop.items():
        call_soon(loop, _resolve, futures)


def _resolve(futures: list[asyncio.Future[None]]) -> None:
    for future in futures:
        if not future.done():
            future.set_result(None)


def call_soon(loop: asyncio.AbstractEventLoop, callback: Callable[..., object], *args: Any) -> None:
    """Schedule a callback on another thread's event loop; does nothing if that loop is closed."""
    try:
        loop.call_soon_threadsafe(callback, *args)
    except RuntimeError:  # raised for a closed loop
        if not loop.is_closed():
            raise
