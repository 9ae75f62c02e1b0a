"""The distribution's Chromium: its path and its flags."""

from __future__ import annotations

import os
import shutil

import pytest

PAGE_TIMEOUT_MS = 60_000  # of waits that normally end at once
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
    """Skip the test where Chromium is not installed; in CI that is a failure."""
    path = shutil.which("chromium")
    if path is not None:
        return path
    if os.environ.get("CI"):
        pytest.fail("chromium is not on the PATH, and the page must be tested in CI")
    pytest.skip("chromium is not on the PATH: browser tests are skipped")
