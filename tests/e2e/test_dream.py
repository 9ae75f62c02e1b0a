"""Two people walk through two dreams of one batch in a real browser."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import expect

from .conftest import Opener
from .maze import MazeServer
from .walker import Walker

RECOLOURED = 15  # mean difference, 0 to 255


@pytest.fixture(scope="module")
def dream(chromium: str) -> Iterator[MazeServer]:
    """With the weights that come with the package."""
    with MazeServer("--max-sessions", "2", "--height", "212", demo="dream") as server:
        yield server


def test_two_people_walk_through_two_dreams_of_one_batch(dream: MazeServer, visit: Opener) -> None:
    first, second = (visit(dream).until_live().in_world(seed) for seed in (1, 2))
    watched = [viewers for viewers in dream.viewers() if viewers]
    assert watched == [1, 1], "two sessions of one engine, each with its viewer"
    assert np.median(np.abs(first.pixels() - second.pixels())) > 6
    for walker, other, key in ((first, second, "KeyE"), (second, first, "KeyQ")):
        walker.keep("here")
        other.keep("there")
        with walker.holding(key):
            walker.until_elsewhere("here")
        walker.until_still()
        other.until_back("there")
    walks(first)
    dreams_in(first, "frost", second)


def walks(walker: Walker) -> None:
    walker.keep("start")
    with walker.holding("KeyS"):
        walker.until_elsewhere("start")
    walker.until_still()


def dreams_in(walker: Walker, theme: str, other: Walker) -> None:
    """A theme changes the dream of its own session only."""
    before = walker.pixels()
    walker.keep("day")
    other.keep("there")
    walker.page.get_by_label(theme, exact=True).check()
    walker.until_recolored("day", least=RECOLOURED)
    gained = (walker.pixels() - before).mean(axis=(0, 1))
    assert gained[2] > gained[0], "frost is bluer than day"
    other.until_back("there")


def test_the_page_reports_unreadable_weights(chromium: str, visit: Opener, tmp_path: Path) -> None:
    path = tmp_path / "broken.safetensors"
    path.write_bytes(b"no weights")
    with MazeServer("--height", "212", "--weights", str(path), demo="dream") as server:
        page = visit(server).page
        expect(page.locator("#overlay")).to_contain_text("is not a safetensors file or is damaged")
        expect(page.locator("#overlay")).to_contain_text(path.name)
        page.context.close()
