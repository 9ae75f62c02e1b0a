"""Lazy import of torch, the errors of this package, and the report of a fallback."""

from __future__ import annotations

import importlib
import logging
from typing import Any

from ...core.errors import RealtimeEngineError, describe


class TorchMissingError(RealtimeEngineError, ImportError):
    """A helper needs torch, which cannot be imported."""


class OverlapError(RealtimeEngineError, RuntimeError):
    """``submit`` with a pending task, ``wait`` without one, or ``submit`` after ``close``."""


class PrefetchFullError(RealtimeEngineError, RuntimeError):
    """``put`` while the maximum number of puts is unread."""


class PrefetchEmptyError(RealtimeEngineError, RuntimeError):
    """``get`` without a ``put`` before it."""


def need_torch(helper: str) -> Any:
    """Import and return torch.

    Raises:
        TorchMissingError: it cannot be imported; the message names ``helper``, the reason and the extra to install.
    """
    try:
        return importlib.import_module("torch")
    except ImportError as error:
        raise TorchMissingError(
            f"{helper} needs torch, which cannot be imported ({error}): pip install 'realtime-engine[torch]'"
        ) from error


def has_cuda(torch: Any) -> bool:
    """Whether torch finds a CUDA device."""
    return bool(torch.cuda.is_available())


class Fallback:
    """Reports that a helper falls back to eager execution: the first time as a warning, later at debug level.

    Args:
        logger: where reports go.
        subject: the helper and its task, as in ``CUDA graph of denoise``.

    Attributes:
        reason: the first reason; ``None`` without a fallback.
    """

    def __init__(self, logger: logging.Logger, subject: str) -> None:
        self.reason: str | None = None
        self._logger = logger
        self._subject = subject

    def report(self, why: str, error: BaseException | None = None) -> str:
        """Record and log a fallback. Returns the complete reason."""
        reason = why if error is None else f"{why}: {describe(error)}"
        level = logging.WARNING if self.reason is None else logging.DEBUG
        self.reason = self.reason or reason
        self._logger.log(level, "%s falls back to eager: %s", self._subject, reason)
        self._logger.debug("traceback of the fallback of %s", self._subject, exc_info=error)
        return reason


def name_of(function: object) -> str:
    """The name of a function or module in log messages."""
    return str(getattr(function, "__qualname__", type(function).__name__))
