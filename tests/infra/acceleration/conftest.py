from __future__ import annotations

import sys

import pytest

from .fake_cuda import FakeCuda


@pytest.fixture
def cuda(monkeypatch: pytest.MonkeyPatch) -> FakeCuda:
    """A machine with a GPU."""
    fake = FakeCuda()
    monkeypatch.setitem(sys.modules, "torch", fake)
    return fake


@pytest.fixture
def no_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
