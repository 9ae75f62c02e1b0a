"""The export list is a promise."""

from __future__ import annotations

import importlib

import realtime_engine.core.streaming as streaming


def test_the_names_are_there_once_and_in_order() -> None:
    assert sorted(set(streaming.__all__)) == streaming.__all__
    assert all(hasattr(streaming, name) for name in streaming.__all__)


def test_everything_public_of_a_file_is_exported() -> None:
    for name in ("errors", "metrics", "orchestrator", "specs", "types"):
        module = importlib.import_module(f"{streaming.__name__}.{name}")
        assert set(module.__all__) <= set(streaming.__all__), name
