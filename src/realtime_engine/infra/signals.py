"""SIGINT and SIGTERM, whichever dispositions the process inherited."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Coroutine
from types import FrameType
from typing import Any, NoReturn, TypeVar

_Result = TypeVar("_Result")


class Terminated(KeyboardInterrupt):
    """SIGTERM was received."""


def raise_on_signals() -> None:
    """Make SIGINT raise :class:`KeyboardInterrupt` and SIGTERM raise :class:`Terminated`, in the main thread.

    A process that a non-interactive shell starts in the background inherits SIGINT as ignored, and Python then installs
    no handler of its own. SIGTERM would end the process without closing files and engines.
    """
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, _terminate)


def run_async(work: Coroutine[Any, Any, _Result]) -> _Result:
    """As :func:`asyncio.run`, but SIGINT and SIGTERM cancel ``work``, so that it can clean up. For the main thread.

    Raises:
        KeyboardInterrupt: SIGINT was received.
        Terminated: SIGTERM was received.
    """
    received: list[int] = []
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    async def cancellable() -> _Result | None:
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        assert task is not None

        def cancel(number: int) -> None:
            received.append(number)
            task.cancel()

        for number in handlers:
            loop.add_signal_handler(number, cancel, number)
        try:
            return await work
        except asyncio.CancelledError:
            if not received:
                raise
            return None

    try:
        result = asyncio.run(cancellable())
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
    if received:
        raise Terminated if received[0] == signal.SIGTERM else KeyboardInterrupt
    return result  # type: ignore[return-value]  # None only after a signal


def exit_code(error: BaseException) -> int:
    """The exit code after ``error``: 128 + SIGTERM or 128 + SIGINT."""
    return 128 + (signal.SIGTERM if isinstance(error, Terminated) else signal.SIGINT)


def _terminate(number: int, frame: FrameType | None) -> NoReturn:
    raise Terminated
