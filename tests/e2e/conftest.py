"""Chromium and the real server.

Optional libraries are imported by the fixtures, so that the tests are skipped where they are missing.
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
    """Starts a browser with additional flags."""

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


@pytest.fixture
def turn_server(chromium: str) -> Iterator[MazeServer]:
    """One place, in turns of three seconds."""
    with MazeServer("--max-sessions", "1", "--turn-minutes", "0.05") as server:
        yield server


@dataclass
class Visit:
    """A page, and the errors and warnings on its console."""

    page: Page
    console_errors: list[str] = field(default_factory=list)

    def on_console(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.console_errors.append(message.text)


Opener = Callable[..., Walker]


@pytest.fixture
def visit(browser: Browser) -> Iterator[Opener]:
    """Opens a page of ``server`` in a new profile; at the end, there may be no unexpected errors on its console.

    ``expected``: how expected console messages start. ``browser``: a browser other than the default.
    ``script``: runs in the page before its own scripts.
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
        page.on("console", seen.on_console)
        page.on("pageerror", lambda error: seen.console_errors.append(str(error)))
        page.add_init_script(path=SIGHT)
        if script:
            page.add_init_script(script)
        page.goto(server.url + query)
        return Walker(page)

    yield open_page
    for seen, _ in visits:
        seen.page.context.close()
    for seen, expected in visits:
        assert [text for text in seen.console_errors if not text.startswith(expected)] == []
