"""Tests of parts whose extra is not installed are skipped; in CI, where all extras are installed, they fail."""

from __future__ import annotations

import importlib.util
import os

import pytest

_PACKAGES = {
    "serve": (
        "PIL aiortc av cv2 fastapi httpx multipart prometheus_client pydantic rich simplejpeg starlette typer uvicorn "
        "watchfiles websockets yaml"
    ).split(),
    "torch": ["torch", "safetensors"],
    "otel": ["opentelemetry"],
}
_EXTRA_OF = {package: extra for extra, packages in _PACKAGES.items() for package in packages}


def skip_without(extra: str) -> None:
    """Skip a test, a module, or from the ``__init__.py`` of a folder all modules in it."""
    for package in _PACKAGES[extra]:
        if importlib.util.find_spec(package) is None:
            _skip(package)


def skip_if_missing(error: BaseException | None) -> None:
    """Skip if ``error`` is the failed import of a package that belongs to an extra and is not installed."""
    if isinstance(error, ImportError) and error.name is not None:
        package = error.name.partition(".")[0]
        if package in _EXTRA_OF and importlib.util.find_spec(package) is None:
            _skip(package)


def _skip(package: str) -> None:
    if not os.environ.get("CI"):
        pytest.skip(
            f"{package} is not installed: pip install 'realtime-engine[{_EXTRA_OF[package]}]'", allow_module_level=True
        )
