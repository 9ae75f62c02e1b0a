"""Lazy import of optional dependencies."""

from __future__ import annotations

import importlib
from typing import Any


class MissingDependencyError(ImportError):
    """A package of an extra is not installed."""


def require(module: str, extra: str, purpose: str) -> Any:
    """Import and return ``module``, which may be a submodule (``PIL.Image``).

    Args:
        module: name of the module.
        extra: the extra of this distribution that installs it.
        purpose: why it is needed, as a verb phrase: ``"write MP4"``.

    Raises:
        MissingDependencyError: it is not installed or cannot be loaded; the message names the extra.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise MissingDependencyError(
            f"cannot {purpose} without the package {module.partition('.')[0]!r} ({error}): "
            f"pip install 'realtime-engine[{extra}]'",
            name=module,
        ) from error
