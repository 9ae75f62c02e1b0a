"""What commands that work without a server need: the engine, and names for what they write."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pydantic import BaseModel

from ..core.contract import RealtimeInterface
from ..core.errors import describe
from ..infra.demo import Demo
from .errors import CommandError


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
