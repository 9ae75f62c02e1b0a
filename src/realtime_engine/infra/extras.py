"""Optional dependencies, imported when they are needed."""

from __future__ import annotations

import importlib
from typing import Any


class MissingDependencyError(ImportError):
    """A package that an extra brings is not installed."""


def require(module: str, extra: str, purpose: str) -> Any:
    """Import ``module`` and return it, submodules included (``PIL.Image``).

    Args:
        module: its name.
        extra: which extra of this distribution brings it.
        purpose: what it is wanted for, as the middle of a sentence: ``"write MP4"``.

    Raises:
        MissingDependencyError: it is not installed, or cannot be loaded; the message says what to install.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise MissingDependencyError(
            f"cannot {purpose} without the package {module.partition('.')[0]!r} ({error}): "
            f"pip install 'realtime-engine[{extra}]'",
            name=module,
        ) from error
