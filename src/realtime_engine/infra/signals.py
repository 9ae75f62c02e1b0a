"""SIGINT and SIGTERM, whichever dispositions the process inherited."""

from __future__ import annotations

import signal
from types import FrameType
from typing import NoReturn


class Terminated(KeyboardInterrupt):
    """SIGTERM was received."""


def raise_on_signals() -> None:
    """Make SIGINT raise :class:`KeyboardInterrupt` and SIGTERM raise :class:`Terminated`, in the main thread.

    A process that a non-interactive shell starts in the background inherits SIGINT as ignored, and Python then installs
    no handler of its own. SIGTERM would end the process without closing files and engines.
    """
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, _terminate)


def exit_code(error: BaseException) -> int:
    """The exit code after ``error``: 128 + SIGTERM or 128 + SIGINT."""
    return 128 + (signal.SIGTERM if isinstance(error, Terminated) else signal.SIGINT)


def _terminate(number: int, frame: FrameType | None) -> NoReturn:
    raise Terminated
