"""Profiles of the property tests, and tests of parts whose extra is not installed.

``make test`` runs every property on the same examples each time; ``scripts/explore`` draws new ones.
"""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from .extras import skip_if_missing

# A loaded machine draws and runs examples slowly: neither is a failure.
settings.register_profile(
    "test", deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True, database=None
)
settings.register_profile(
    "explore", deadline=None, suppress_health_check=[HealthCheck.too_slow], max_examples=2000, print_blob=True
)
settings.load_profile("test")


def pytest_pycollect_makemodule(module_path: Path, parent: pytest.Collector) -> pytest.Module:
    return _Module.from_parent(parent, path=module_path)


class _Module(pytest.Module):
    """A test module, skipped as a whole where it imports a package of an extra that is not installed."""

    def collect(self) -> list[pytest.Item | pytest.Collector]:
        try:
            return list(super().collect())
        except self.CollectError as error:
            skip_if_missing(error.__cause__)
            raise


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup() -> Generator[None]:
    try:
        return (yield)
    except ImportError as error:
        skip_if_missing(error)
        raise


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call() -> Generator[None]:
    try:
        return (yield)
    except ImportError as error:
        skip_if_missing(error)
        raise
