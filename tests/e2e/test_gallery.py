"""Several demos in one server, in a real browser: from the gallery to a demo, to another one at once, and back."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import expect

from ..cli.support import Command
from .conftest import Opener

DEMOS = """
from dataclasses import replace

from realtime_engine.integrations.maze.demo import demo as maze

def fail(options):
    raise OSError("no weights at all")

own = replace(maze, name="own", title="My own maze")
broken = replace(maze, name="broken", title="Broken", build=fail)
"""


class Gallery:
    """A server of three demos, of which one fails."""

    def __init__(self, command: Command) -> None:
        self.command = command
        self.url = command.url() + "/"


@pytest.fixture
def gallery(chromium: str, tmp_path: Path) -> Iterator[Gallery]:
    (tmp_path / "my.py").write_text(DEMOS)
    with Command("serve", "maze", "my.py:own", "my.py:broken", "--port", "0", cwd=tmp_path) as command:
        yield Gallery(command)


def test_two_demos_are_played_from_the_gallery_while_one_fails(gallery: Gallery, visit: Opener) -> None:
    first, second = visit(gallery), visit(gallery)
    for page in (first.page, second.page):
        expect(page.locator(".demo")).to_have_count(3)
        expect(page.locator(".demo-state")).to_have_text(["Not loaded"] * 3)
    first.page.get_by_role("link", name="The Maze").click()
    first.until_live()
    second.page.get_by_role("link", name="My own maze").click()
    second.until_live()
    for walker in (first, second):
        walker.keep("start")
        walker.page.locator("#stage").click()
        with walker.holding("KeyQ"):
            walker.until_elsewhere("start")
    broken = visit(gallery)
    broken.page.get_by_role("link", name="Broken").click()
    expect(broken.page.locator("#overlay")).to_contain_text("OSError: no weights at all")
    broken.page.get_by_role("link", name="All demos").click()
    expect(broken.page.locator(".demo-state")).to_have_text(
        ["1 of 8 playing", "1 of 8 playing", "Failed: OSError: no weights at all"]
    )
    expect(broken.page.locator(".demo-picture img:visible")).to_have_count(2)
    first.page.go_back()
    expect(first.page.locator(".demo")).to_have_count(3)
    expect(second.page.locator("#status")).to_have_text("Live")
