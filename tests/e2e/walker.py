"""A user of the page: presses keys and compares pictures."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..browser import PAGE_TIMEOUT_MS

if TYPE_CHECKING:
    from playwright.sync_api import Page

SIGHT = Path(__file__).with_name("sight.js")
MOVED = 6  # median difference of pictures from different places, 0 to 255
STILL = 3  # and of pictures from one place: what the video codec does
STILL_FRAMES = 12


class Walker:
    """A page and its picture."""

    def __init__(self, page: Page) -> None:
        self.page = page

    def until_live(self, timeout_ms: int = PAGE_TIMEOUT_MS) -> Walker:
        """Wait until the page is live and the view is at rest."""
        from playwright.sync_api import expect

        expect(self.page.locator("#status")).to_have_text("Live", timeout=timeout_ms)
        self.until_still()
        return self

    def in_world(self, seed: int) -> Walker:
        """Reset to the world of a seed, and wait until the view is at rest."""
        self.page.get_by_label("Seed").fill(str(seed))
        with self.page.expect_response(re.compile("/reset$")):
            self.page.click("#reset")
        self.until_still()
        return self

    @contextmanager
    def holding(self, key: str) -> Iterator[None]:
        self.page.keyboard.down(key)
        try:
            yield
        finally:
            self.page.keyboard.up(key)

    def keep(self, name: str) -> None:
        """Store the current picture under a name."""
        self.page.evaluate("name => sight.keep(name)", name)

    def until_elsewhere(self, name: str) -> None:
        """Wait until the picture shows a place other than the stored one."""
        self._until(name, "median", least=MOVED)

    def until_back(self, name: str) -> None:
        """Wait until the picture shows the stored place."""
        self._until(name, "median", most=STILL)

    def until_still(self, timeout_ms: int = PAGE_TIMEOUT_MS) -> None:
        """Wait until the view is at rest while frames arrive."""
        wanted = {"frames": STILL_FRAMES, "most": STILL, "timeout": timeout_ms}
        self.page.evaluate("wanted => sight.untilStill(wanted)", wanted)

    def until_recolored(self, name: str, least: float) -> None:
        """Wait until the mean difference from the stored picture is at least ``least``."""
        self._until(name, "mean", least=least)

    def pixels(self) -> NDArray[np.int16]:
        """The current picture, (54, 96, 3)."""
        return np.array(self.page.evaluate("sight.pixels()"), np.int16).reshape(54, 96, 3)

    def _until(self, name: str, measure: str, **limits: Any) -> None:
        wanted = {"name": name, "measure": measure, "timeout": PAGE_TIMEOUT_MS, **limits}
        self.page.evaluate("wanted => sight.until(wanted)", wanted)
