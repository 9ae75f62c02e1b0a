"""Chromium and the mock server.

Outside libraries are imported when a fixture is asked for, so that a place without them skips the tests.
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
    from .mock_server import Behaviour, MockServer

    with MockServer(Behaviour()) as running:
        yield running


@dataclass
class Visit:
    """What one page did that a person does not see."""

    page: Page
    requests: list[str] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)

    def note(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.complaints.append(message.text)


Opener = Callable[..., "Page"]


@pytest.fixture
def visit(browser: Browser, server: MockServer) -> Iterator[Opener]:
    """Opens the page; at the end, nothing may have gone wrong unseen, and nothing may have been fetched elsewhere.

    ``refusals``: how many answers of 400 or more the browser may report on its console. ``expected``: the beginning of
    what else it may say there.
    """
    visits: list[tuple[Visit, int, str | tuple[str, ...]]] = []

    def open_page(
        query: str = "", *, refusals: int = 0, expected: str | tuple[str, ...] = (), script: str = "", **context: Any
    ) -> Page:
        page = browser.new_context(**context).new_page()
        seen = Visit(page)
        visits.append((seen, refusals, expected))
        page.on("console", seen.note)
        page.on("pageerror", lambda error: seen.complaints.append(str(error)))
        page.on("request", lambda request: seen.requests.append(request.url))
        if script:
            page.add_init_script(script)
        page.goto(server.url + query)
        return page

    yield open_page
    for seen, refusals, expected in visits:
        seen.page.context.close()
        refused = [text for text in seen.complaints if text.startswith("Failed to load resource")]
        assert [text for text in seen.complaints if text not in refused and not text.startswith(expected)] == []
        assert len(refused) <= refusals, refused
        elsewhere = [url for url in seen.requests if not url.startswith((server.url, "data:", "blob:"))]
        assert elsewhere == []
