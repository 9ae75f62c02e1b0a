"""A page stays open while the author of the demo changes its file."""

from __future__ import annotations

from pathlib import Path

from playwright.sync_api import expect

from .conftest import Opener
from .maze import MazeServer

DEMO = """
import dataclasses

from realtime_engine.integrations.maze.demo import demo as maze

demo = dataclasses.replace(maze, title="{title}")
"""


def test_the_page_returns_with_the_changed_demo(chromium: str, tmp_path: Path, visit: Opener) -> None:
    file = tmp_path / "mine.py"
    file.write_text(DEMO.format(title="First"))
    with MazeServer("--reload", demo=f"{file}:demo") as server:
        page = visit(server, expected=("Failed to load resource", "WebSocket connection to")).until_live().page
        expect(page.locator("#title")).to_have_text("First")
        file.write_text(DEMO.format(title="The second"))
        expect(page.locator("#title")).to_have_text("The second")
        expect(page.locator("#status")).to_have_text("Live")
