"""How far the loading of a model is, told from inside ``build`` to whoever waits for it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import NamedTuple

_MAX = 200  # characters of a message


class LoadProgress(NamedTuple):
    """``message`` for people; ``fraction`` of the whole, 0 to 1, ``None`` while nobody knows."""

    message: str
    fraction: float | None


_listener: ContextVar[Callable[[LoadProgress], None] | None] = ContextVar("loading_listener", default=None)


def report_loading(message: str, fraction: float | None = None) -> None:
    """Say what a model is at while it loads. Does nothing when nobody listens.

    What is told is a line that any page can show: control characters count as spaces, and a long one is cut off.

    Raises:
        ValueError: ``fraction`` is neither ``None`` nor 0 to 1.
    """
    if fraction is not None and not 0 <= fraction <= 1:
        raise ValueError(f"fraction must be from 0 to 1, or None while nobody knows, got {fraction!r}")
    listener = _listener.get()
    if listener is not None:
        listener(LoadProgress(_line(message), None if fraction is None else float(fraction)))


@contextlib.contextmanager
def hearing_progress(listener: Callable[[LoadProgress], None]) -> Iterator[None]:
    """``listener`` is told what is reported inside the block, on the thread that reports it."""
    token = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(token)


def _line(message: object) -> str:
    text = str(message)
    shown = "".join(each if each.isprintable() else " " for each in text[:_MAX])
    return " ".join(shown.split()) + ("..." if len(text) > _MAX else "")
