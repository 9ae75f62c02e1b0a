"""Progress of loading a model, reported from inside ``build``."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import NamedTuple

_MAX = 200  # characters of a message


class LoadProgress(NamedTuple):
    """A message to display, and the completed fraction from 0 to 1, ``None`` if unknown."""

    message: str
    fraction: float | None


_listener: ContextVar[Callable[[LoadProgress], None] | None] = ContextVar("loading_listener", default=None)


def report_loading(message: str, fraction: float | None = None) -> None:
    """Report what a model is loading. Without a listener, this does nothing.

    The message is shown as one line: control characters become spaces, and a long message is truncated.

    Args:
        message: text to display.
        fraction: completed fraction from 0 to 1; ``None`` if unknown.

    Raises:
        ValueError: ``fraction`` is out of range.
    """
    if fraction is not None and not 0 <= fraction <= 1:
        raise ValueError(f"fraction must be from 0 to 1, or None if unknown, got {fraction!r}")
    listener = _listener.get()
    if listener is not None:
        listener(LoadProgress(_line(message), None if fraction is None else float(fraction)))


@contextlib.contextmanager
def listening_to_progress(listener: Callable[[LoadProgress], None]) -> Iterator[None]:
    """Call ``listener`` for each report inside the block, on the reporting thread."""
    token = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(token)


def _line(message: object) -> str:
    text = str(message)
    shown = "".join(each if each.isprintable() else " " for each in text[:_MAX])
    return " ".join(shown.split()) + ("..." if len(text) > _MAX else "")
