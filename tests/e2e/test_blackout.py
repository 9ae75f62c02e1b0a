"""A real browser during a network outage."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

from ..browser import FLAGS
from ..network import Network, network
from .conftest import Opener
from .maze import MazeServer

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Playwright

BLACKOUT_S = 10.0


@pytest.fixture
def wire() -> Iterator[Network]:
    with network() as made:
        yield made


@pytest.fixture
def server(wire: Network) -> Iterator[MazeServer]:
    with MazeServer(end=wire.server) as server:
        yield server


@pytest.fixture
def browser(wire: Network, playwright: Playwright, chromium: str, tmp_path: Path) -> Iterator[Browser]:
    """A browser at the other end of the link."""
    script = tmp_path / "chromium"
    script.write_text(f'#!/bin/sh\nexec {" ".join(wire.client.command(chromium))} "$@"\n')
    script.chmod(0o755)
    browser = playwright.chromium.launch(executable_path=script, args=FLAGS)
    yield browser
    browser.close()


def test_video_resumes_after_a_network_outage(wire: Network, server: MazeServer, visit: Opener) -> None:
    walker = visit(server).until_live()
    with wire.blackout():
        time.sleep(BLACKOUT_S)
        frames = walker.page.evaluate("sight.frames")
    walker.page.wait_for_function("frames => sight.frames > frames + 1", arg=frames)
    expect(walker.page.locator("#video")).to_be_visible()
    walker.keep("start")
    with walker.holding("KeyE"):
        walker.until_elsewhere("start")
    assert server.log.count(" started; ") == 1, "the page returns to its session"
