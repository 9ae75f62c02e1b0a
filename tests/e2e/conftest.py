"""Chromium and the real server.

Outside libraries are imported when a fixture is asked for, so that a place without them skips the tests.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest

from ..browser import FLAGS, PAGE_TIMEOUT_MS, chromium_path
from .maze import MazeServer
from .walker import SIGHT, Walker

if TYPE_CHECKING:
    from playwright.sync_api import Browser, ConsoleMessage, Page, Playwright

Launch = Callable[..., AbstractContextManager["Browser"]]


@pytest.fixture(scope="package")
def chromium() -> str:
    return chromium_path()


@pytest.fixture(scope="package")
def playwright(chromium: str) -> Iterator[Playwright]:
    from playwright.sync_api import expect, sync_playwright

    expect.set_options(timeout=PAGE_TIMEOUT_MS)
    with sync_playwright() as driver:
        yield driver


@pytest.fixture(scope="package")
def launch(playwright: Playwright, chromium: str) -> Launch:
    """Starts a browser with more flags."""

    @contextmanager
    def start(*flags: str) -> Iterator[Browser]:
        browser = playwright.chromium.launch(executable_path=chromium, args=[*FLAGS, *flags])
        yield browser
        browser.close()

    return start


@pytest.fixture(scope="package")
def browser(launch: Launch) -> Iterator[Browser]:
    with launch() as browser:
        yield browser


@pytest.fixture(scope="package")
def server(chromium: str) -> Iterator[MazeServer]:
    with MazeServer("--max-sessions", "4") as server:
        yield server


@pytest.fixture
def small_server(chromium: str) -> Iterator[MazeServer]:
    """One place, given back soon. A test names it before ``visit``: pages are closed before it ends."""
    with MazeServer("--max-sessions", "1", "--idle-timeout", "3", "--viewer-grace", "0.5") as server:
        yield server


@dataclass
class Visit:
    """What one page did that a person does not see."""

    page: Page
    complaints: list[str] = field(default_factory=list)

    def note(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.complaints.append(message.text)


Opener = Callable[..., Walker]


@pytest.fixture
def visit(browser: Browser) -> Iterator[Opener]:
    """Opens a page of ``server`` in a profile of its own; at the end, nothing may have gone wrong unseen.

    ``expected``: the beginning of what the page may say on its console. ``browser``: another than the usual one.
    ``script``: runs in the page before its own.
    """
    visits: list[tuple[Visit, str | tuple[str, ...]]] = []
    usual = browser

    def open_page(
        server: MazeServer,
        query: str = "",
        *,
        expected: str | tuple[str, ...] = (),
        browser: Browser | None = None,
        script: str = "",
    ) -> Walker:
        page = (browser or usual).new_context().new_page()
        page.set_default_timeout(PAGE_TIMEOUT_MS)
        seen = Visit(page)
        visits.append((seen, expected))
        page.on("console", seen.note)
        page.on("pageerror", lambda error: seen.complaints.append(str(error)))
        page.add_init_script(path=SIGHT)
        if script:
            page.add_init_script(script)
        page.goto(server.url + query)
        return Walker(page)

    yield open_page
    for seen, _ in visits:
        seen.page.context.close()
    for seen, expected in visits:
        assert [text for text in seen.complaints if not text.startswith(expected)] == []
