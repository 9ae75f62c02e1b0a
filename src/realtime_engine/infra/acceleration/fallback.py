"""Why a helper runs eagerly, told once."""

from __future__ import annotations

import logging

from ...core.errors import describe


class Fallback:
    """The first reason is logged as a warning; those after it only for debugging.

    Attributes:
        reason: the first reason, ``None`` as long as there was none.
    """

    def __init__(self, logger: logging.Logger, what: str) -> None:
        """``what`` names the helper and its task, as in ``CUDA graph of denoise``."""
        self.reason: str | None = None
        self._logger = logger
        self._what = what

    def report(self, why: str, error: BaseException | None = None) -> str:
        """Note that the helper falls back; the whole reason comes back."""
        reason = why if error is None else f"{why}: {describe(error)}"
        level = logging.WARNING if self.reason is None else logging.DEBUG
        self.reason = self.reason or reason
        self._logger.log(level, "%s falls back to eager: %s", self._what, reason)
        self._logger.debug("%s fell back here", self._what, exc_info=error)
        return reason


def name_of(function: object) -> str:
    """What a log line calls a function or a module."""
    return str(getattr(function, "__qualname__", type(function).__name__))
