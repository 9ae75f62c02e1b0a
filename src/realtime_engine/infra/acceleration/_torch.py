"""torch, imported when a helper is first made and never before."""

from __future__ import annotations

import importlib
import logging
from typing import Any

from ...core.errors import RealtimeEngineError, describe


class TorchMissingError(RealtimeEngineError, ImportError):
    """A helper needs torch, which cannot be imported here."""


class OverlapError(RealtimeEngineError, RuntimeError):
    """``submit`` while a task is pending, ``wait`` while none is, or ``submit`` after ``close``."""


class PrefetchFullError(RealtimeEngineError, RuntimeError):
    """As many puts are unread as may be."""


class PrefetchEmptyError(RealtimeEngineError, RuntimeError):
    """``get`` without a ``put`` before it."""


def need_torch(helper: str) -> Any:
    """torch.

    Raises:
        TorchMissingError: it cannot be imported; names ``helper``, the reason and the extra that brings it.
    """
    try:
        return importlib.import_module("torch")
    except ImportError as error:
        raise TorchMissingError(
            f"{helper} needs torch, which cannot be imported ({error}): pip install 'realtime-engine[torch]'"
        ) from error


def has_cuda(torch: Any) -> bool:
    """Whether there is a CUDA device to work on."""
    return bool(torch.cuda.is_available())


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
