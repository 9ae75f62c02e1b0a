"""No serious finding of axe-core on any state of the page, on a desktop and a phone, dark and light."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from .maze import MazeServer

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, Page

AXE = Path(__file__).parents[2] / "node_modules" / "axe-core" / "axe.min.js"
DESKTOP: dict[str, Any] = {"viewport": {"width": 1280, "height": 800}}
PHONE: dict[str, Any] = {"viewport": {"width": 390, "height": 800}, "has_touch": True, "is_mobile": True}
FAILURE = {"type": "urn:realtime-engine:problem:engine-failed", "status": 500, "detail": "RuntimeError: no memory"}


@pytest.fixture(scope="module")
def axe() -> str:
    """Skip the test where axe-core is not installed; in CI that is a failure."""
    if AXE.is_file():
        return AXE.read_text(encoding="utf-8")
    if os.environ.get("CI"):
        pytest.fail("axe-core is missing: run npm ci")
    pytest.skip("axe-core is missing: run npm ci")


@pytest.fixture(params=["dark", "light"])
def theme(request: pytest.FixtureRequest) -> Any:
    return request.param


@pytest.fixture(params=[DESKTOP, PHONE], ids=["desktop", "phone"])
def contexts(request: pytest.FixtureRequest, browser: Browser, theme: Any) -> Iterator[list[BrowserContext]]:
    """Two visitors."""
    opened = [browser.new_context(color_scheme=theme, **request.param) for _ in range(2)]
    yield opened
    for context in opened:
        context.close()


def findings(page: Page, axe: str) -> list[str]:
    """The serious and critical findings: the rule, and the elements that break it."""
    page.evaluate(axe)  # not a script of the page, whose policy would block it
    found = page.evaluate("axe.run(document, {resultTypes: ['violations']})")["violations"]
    return [
        f"{each['id']}: {[(node['target'], node['failureSummary']) for node in each['nodes']]}"
        for each in found
        if each["impact"] in ("serious", "critical")
    ]


def test_a_fault_is_found(axe: str, contexts: list[BrowserContext]) -> None:
    page = contexts[0].new_page()
    page.set_content("<button></button>")
    assert [text for text in findings(page, axe) if text.startswith("button-name")]


def test_no_state_of_the_page_has_a_serious_finding(
    axe: str, small_server: MazeServer, contexts: list[BrowserContext]
) -> None:
    from playwright.sync_api import expect

    states: dict[str, list[str]] = {}
    page, other = (context.new_page() for context in contexts)
    page.goto(small_server.url)
    expect(page.locator("#status")).to_have_text("Live")
    states["playing"] = findings(page, axe)
    page.click("#stats-toggle")
    expect(page.locator("#details")).to_be_visible()
    states["statistics"] = findings(page, axe)
    page.click("#stats-toggle")

    other.goto(small_server.url)
    expect(other.locator("#overlay-title")).to_have_text("Number 1 in line")
    expect(other.locator(".lobby-session")).to_have_count(1)
    states["waiting"] = findings(other, axe)
    other.goto(f"{small_server.url}?lobby")
    expect(other.locator(".lobby-session")).to_have_count(1)
    states["lobby"] = findings(other, axe)

    other.route("**/api/sessions", lambda route: route.fulfill(status=500, body=json.dumps(FAILURE)))
    other.goto(small_server.url)
    expect(other.locator("#overlay-title")).to_have_text("The model has failed")
    states["error"] = findings(other, axe)

    page.click("#share")
    expect(page.locator("#share-dialog")).to_be_visible()
    states["share"] = findings(page, axe)
    assert {state: found for state, found in states.items() if found} == {}
