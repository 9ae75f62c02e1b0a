"""The browser of the distribution: where it is, and how tests start it."""

from __future__ import annotations

import os
import shutil

import pytest

PAGE_TIMEOUT_MS = 60_000  # of waits that end at once when all is well
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


def chromium_path() -> str:
    """Skips the test where there is no Chromium; in CI that is a failure."""
    path = shutil.which("chromium")
    if path is not None:
        return path
    if os.environ.get("CI"):
        pytest.fail("there is no chromium on the PATH, and in CI the page must be tested")
    pytest.skip("there is no chromium on the PATH: nothing is tested in a browser")
