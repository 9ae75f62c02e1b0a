"""The page reads the packets of the video WebSocket as the server writes them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, Page

from realtime_engine.infra.webcodecs import VideoPacket

from .mock_server import Behavior, MockServer

PARSE = """
    async (bytes) => {
        const { parsePacket } = await import("./js/packet.js");
        const { data, ...header } = parsePacket(new Uint8Array(bytes).buffer);
        return { ...header, data: [...data] };
    }
"""


@pytest.fixture(scope="module")
def page(browser: Browser) -> Iterator[Page]:
    """The page of a demo that failed to load, so that nothing but the module under test runs."""
    with MockServer(Behavior(load_error="only modules are tested")) as server:
        page = browser.new_page()
        page.goto(server.url)
        yield page
        page.close()


def parse(page: Page, message: bytes) -> dict[str, Any]:
    parsed: dict[str, Any] = page.evaluate(PARSE, list(message))
    return parsed


@pytest.mark.parametrize(
    "packet",
    [
        pytest.param(
            VideoPacket(2**32 - 1, True, 2**53 - 1, 2**32 - 1, 2**53 - 1, 2**16 - 1, 2**53 - 1, b"\0\1"), id="maximum"
        ),
        pytest.param(VideoPacket(0, False, 0, 1, 0, 0, None, b""), id="minimum"),
    ],
)
def test_a_packet_is_parsed_as_the_server_encodes_it(page: Page, packet: VideoPacket) -> None:
    assert parse(page, packet.encode()) == {
        "number": packet.number,
        "keyframe": packet.keyframe,
        "timestamp": packet.timestamp_us,
        "epoch": packet.epoch,
        "seq": packet.seq,
        "index": packet.index,
        "actionSeq": packet.action_seq,
        "data": list(packet.data),
    }
