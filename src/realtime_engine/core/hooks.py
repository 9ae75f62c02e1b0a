"""Calling what a model author wrote."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from .errors import EngineContractError


def call_hook(hook: Callable[..., Any], *args: Any) -> Any:
    """Call an engine or model hook; a coroutine in place of a result is a broken contract, not a promise to be kept."""
    result = hook(*args)
    if result is not None and inspect.iscoroutine(result):
        result.close()
        raise EngineContractError(f"{getattr(hook, '__qualname__', hook)} must be a plain function, not async def")
    return result
