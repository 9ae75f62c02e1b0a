"""torch, imported when a helper is first made and never before."""

from __future__ import annotations

import importlib
from typing import Any

from .errors import TorchMissingError


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
