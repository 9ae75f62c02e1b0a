"""Chromium and the mock server.

Third-party packages are imported by the fixtures, so that the tests are skipped where a package is missing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest

from ..browser import FLAGS, PAGE_TIMEOUT_MS, chromium_path

if TYPE_CHECKING:
    from playwright.sync_api import Browser, ConsoleMessage, Page

    from .mock_server import MockServer


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    from playwright.sync_api import expect, sync_playwright

    expect.set_options(timeout=PAGE_TIMEOUT_MS)
    path = chromium_path()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture
def server() -> Iterator[MockServer]:
    from .mock_server import Behavior, MockServer

    with MockServer(Behavior()) as running:
        yield running


@dataclass
class Visit:
    """Requests and console errors of one page."""

    page: Page
    requests: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)

    def on_console(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.errors.append(message.text)


Opener = Callable[..., "Page"]


@pytest.fixture
def visit(browser: Browser, server: MockServer) -> Iterator[Opener]:
    """Opens the page. At the end, checks that it has logged no error and sent no request to another host.

    ``failures``: how many responses of 400 or more the browser may log. ``expected``: prefix of other messages that it
    may log.
    """
    visits: list[tuple[Visit, int, str | tuple[str, ...]]] = []

    def open_page(
        query: str = "", *, failures: int = 0, expected: str | tuple[str, ...] = (), script: str = "", **context: Any
    ) -> Page:
        page = browser.new_context(**context).new_page()
        seen = Visit(page)
        visits.append((seen, failures, expected))
        page.on("console", seen.on_console)
        page.on("pageerror", lambda error: seen.errors.append(str(error)))
        page.on("request", lambda request: seen.requests.append(request.url))
        if script:
            page.add_init_script(script)
        page.goto(server.url + query)
        return page

    yield open_page
    for seen, failures, expected in visits:
        seen.page.context.close()
        failed = [text for text in seen.errors if text.startswith("Failed to load resource")]
        assert [text for text in seen.errors if text not in failed and not text.startswith(expected)] == []
        assert len(failed) <= failures, failed
        external = [url for url in seen.requests if not url.startswith((server.url, "data:", "blob:"))]
        assert external == []
