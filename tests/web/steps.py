"""Steps shared by the tests of the page."""

from __future__ import annotations

from typing import Any

from playwright.sync_api import FilePayload, Page, expect

from .mock_server import MockServer

PHONE: dict[str, Any] = {"viewport": {"width": 360, "height": 740}, "has_touch": True, "is_mobile": True}
MJPEG = "?transport=mjpeg"
WEBCODECS = "?transport=webcodecs"


def live(page: Page) -> Page:
    expect(page.locator("#status")).to_have_text("Live")
    return page


def stat(page: Page, name: str) -> str:
    return page.locator(f'[data-stat="{name}"]').inner_text()


def png(data: bytes) -> FilePayload:
    return {"name": "first.png", "mimeType": "image/png", "buffer": data}


def controls(server: MockServer) -> list[dict[str, Any]]:
    return [message for message in server.messages if message["type"] == "controls"]
