"""Where the command line writes, and how the log looks. The only place that configures logging."""

from __future__ import annotations

import logging
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
_LOUD = ("uvicorn", "aiortc", "aioice", "httpx", "websockets", "asyncio")  # at info they tell nothing to a visitor

out = Console(highlight=False)
err = Console(stderr=True, highlight=False)


def configure_logging(level: str) -> None:
    """Log to standard error."""
    handler = RichHandler(console=err, show_path=False, log_time_format="%H:%M:%S", markup=False)
    logging.basicConfig(level=level.upper(), format="%(message)s", handlers=[handler], force=True)
    if level != "debug":
        for name in _LOUD:
            logging.getLogger(name).setLevel(logging.WARNING)
    logging.captureWarnings(True)


def complain(text: str) -> None:
    """One line, however long."""
    err.print(f"[bold red]Error:[/] {escape(' '.join(text.split()))}", soft_wrap=True)


class CommandError(RealtimeEngineError):
    """Ends the command with this one line and exit code 2."""


def built(demo: Demo, options: BaseModel | None) -> RealtimeInterface:
    """The engine. Errors: :class:`CommandError`, whatever the demo's own code raises."""
    try:
        return demo.build_engine(options)
    except Exception as error:
        raise CommandError(f"demo {demo.name!r} cannot be built: {describe(error)}") from error


@contextmanager
def naming_files() -> Iterator[None]:
    """Errors: :class:`CommandError` for a name inside that is taken, or that cannot be had."""
    try:
        yield
    except FileExistsError as error:
        raise CommandError(f"{error} (--overwrite)") from error
    except (OSError, ValueError) as error:
        raise CommandError(str(error)) from error
