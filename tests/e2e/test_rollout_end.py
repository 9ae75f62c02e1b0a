"""A rollout that ends, in a real browser: the page keeps the last picture and offers to start again."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import expect

from .conftest import Opener
from .maze import MazeServer

DEMO = """
from dataclasses import replace

from realtime_engine.integrations.maze.demo import demo as maze

demo = replace(maze, max_chunks=60)
"""


@pytest.fixture
def ending(chromium: str, tmp_path: Path) -> Iterator[MazeServer]:
    path = tmp_path / "ending.py"
    path.write_text(DEMO)
    with MazeServer("--max-sessions", "1", demo=f"{path}:demo") as server:
        yield server


def test_a_finished_rollout_keeps_its_picture_and_starts_again(ending: MazeServer, visit: Opener) -> None:
    walker = visit(ending)
    expect(walker.page.locator("#overlay")).to_contain_text("The rollout has ended.")  # the model is loaded by then
    for epoch in (1, 2):
        while [(session["state"], session["epoch"]) for session in ending.sessions()] != [("finished", epoch)]:
            walker.page.wait_for_timeout(50)
        expect(walker.page.locator("#overlay")).to_contain_text("The rollout has ended.")
        expect(walker.page.locator("#status")).to_have_text("Finished")
        assert walker.pixels().std() > 10, "the last picture"
        with walker.page.expect_response("**/reset"):
            walker.page.get_by_role("button", name="Start again").click()
