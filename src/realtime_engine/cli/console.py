"""Console output, the logging configuration and the errors of the command line."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager

from pydantic import BaseModel
from rich.console import Console
from rich.logging import RichHandler
from rich.markup import escape

from ..core.contract import RealtimeInterface
from ..core.errors import RealtimeEngineError, describe
from ..infra.demo import Demo

LEVELS = ("debug", "info", "warning", "error")
_LOUD = ("uvicorn", "aiortc", "aioice", "httpx", "websockets", "asyncio", "watchfiles")  # too verbose at level info

_PIPED_WIDTH = 100_000  # of a pipe or file, in which nothing is wrapped


def _console(*, stderr: bool) -> Console:
    """A console of a standard stream. Where the stream is no terminal, its lines are not wrapped."""
    console = Console(stderr=stderr, highlight=False)
    if not console.is_terminal and "COLUMNS" not in os.environ:
        console = Console(stderr=stderr, highlight=False, width=_PIPED_WIDTH)
    return console


out = _console(stderr=False)
err = _console(stderr=True)


def configure_logging(level: str) -> None:
    """Log to standard error at ``level``: in columns on a terminal, otherwise in plain lines."""
    handler: logging.Handler
    if err.is_terminal:
        handler = RichHandler(console=err, show_path=False, log_time_format="%H:%M:%S", markup=False)
        handler.setFormatter(logging.Formatter("%(message)s"))
    else:
        handler = logging.StreamHandler()
        handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)-8s %(message)s", "%H:%M:%S"))
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    if level != "debug":
        for name in _LOUD:
            logging.getLogger(name).setLevel(logging.WARNING)
    logging.captureWarnings(True)


def complain(text: str) -> None:
    """Print an error as one line."""
    err.print(f"[bold red]Error:[/] {escape(' '.join(text.split()))}", soft_wrap=True)


class CommandError(RealtimeEngineError):
    """A user error: its message is printed as one line, and the exit code is 2."""


def build_engine(demo: Demo, options: BaseModel | None) -> RealtimeInterface:
    """Build the engine of a demo.

    Raises:
        CommandError: the code of the demo failed.
    """
    try:
        return demo.build_engine(options)
    except Exception as error:
        raise CommandError(f"demo {demo.name!r} cannot be built: {describe(error)}") from error


@contextmanager
def file_errors() -> Iterator[None]:
    """Convert errors of output paths inside the block.

    Raises:
        CommandError: a file exists, or its path cannot be used.
    """
    try:
        yield
    except FileExistsError as error:
        raise CommandError(f"{error} (--overwrite)") from error
    except (OSError, ValueError) as error:
        raise CommandError(str(error)) from error
