"""Where the command line writes, and how the log looks. The only place that configures logging."""

from __future__ import annotations

import logging

from rich.console import Console
from rich.logging import RichHandler
from rich.markup import escape

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
