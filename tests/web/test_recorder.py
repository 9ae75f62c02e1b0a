"""The record button in a real browser, against the mock server."""

from __future__ import annotations

from pathlib import Path

from playwright.sync_api import Page, expect

from .conftest import Opener
from .mock_server import MockServer
from .steps import MJPEG, live


def record(page: Page) -> Page:
    page.locator("#record").click()
    expect(page.locator("#record")).to_have_text("Stop 1:04")
    expect(page.locator("#record")).to_have_attribute("aria-pressed", "true")
    return page


def test_recordings_can_be_started_stopped_and_downloaded(visit: Opener, server: MockServer) -> None:
    server.behavior.recording = "serve"
    page = live(visit(MJPEG))
    expect(page.locator("#record")).to_have_text("Record")
    for number in (1, 2):
        record(page)
        expect(page.locator("#recording")).to_be_hidden()
        page.locator("#record").click()
        expect(page.locator("#record")).to_have_text("Record")
        expect(page.locator("#record")).to_have_attribute("aria-pressed", "false")
        expect(page.locator("#recording")).to_have_text(
            f"Recorded: recording-{number}.mp4 (2.3 MB)recording-{number}-2.mp4 (2.3 MB)"
        )
    with page.expect_download() as download:
        page.get_by_role("link", name="recording-2.mp4").click()
    assert Path(download.value.path()).read_bytes() == b"mp4 data"
    assert download.value.suggested_filename == "recording-2.mp4"


def test_a_recording_stopped_by_the_server_can_be_downloaded(visit: Opener, server: MockServer) -> None:
    server.behavior.recording = "serve"
    page = record(live(visit(MJPEG, failures=10)))
    server.behavior.recording = "full"
    expect(page.locator("#record")).to_have_text("Record")
    expect(page.locator("#toasts")).to_contain_text("maximum size")
    expect(page.locator("#recording a")).to_have_count(2)
    server.behavior.recording = "serve"
    record(page)
    server.alive.clear()
    expect(page.locator("#recording")).to_contain_text("recording-2.mp4")
    expect(page.locator("#record")).to_have_text("Record")
