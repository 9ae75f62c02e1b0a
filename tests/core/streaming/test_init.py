"""The export list is a promise."""

from __future__ import annotations

import importlib
import pkgutil

import realtime_engine.core.streaming as streaming


def test_the_names_are_there_once_and_in_order() -> None:
    assert sorted(set(streaming.__all__)) == streaming.__all__
    assert all(hasattr(streaming, name) for name in streaming.__all__)


def test_everything_public_of_a_file_is_exported() -> None:
    for module in pkgutil.iter_modules(streaming.__path__):
        names = getattr(importlib.import_module(f"{streaming.__name__}.{module.name}"), "__all__", [])
        assert set(names) <= set(streaming.__all__), module.name
