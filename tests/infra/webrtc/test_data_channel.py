from __future__ import annotations

import json
from typing import Any

import pytest

from realtime_engine.infra.webrtc.data_channel import ControlsChannel
from realtime_engine.testing import ManualClock


class FakeChannel:
    """A data channel that notes what is done to it."""

    maxPacketLifeTime = maxRetransmits = None
    ordered, readyState, bufferedAmount = True, "open", 0

    def __init__(self, label: str = "controls") -> None:
        self.label = label
        self.sent: list[str] = []
        self.closed = False
        self.receive: Any = None

    def on(self, event: str, receive: Any) -> None:
        self.receive = receive

    def send(self, text: str) -> None:
        self.sent.append(text)

    def close(self) -> None:
        self.closed = True


def opened(on_text: Any, clock: ManualClock) -> FakeChannel:
    channel = FakeChannel()
    ControlsChannel(on_text, clock).take(channel)  # type: ignore[arg-type]
    return channel


def test_bytes_that_are_no_text_are_no_fault_of_the_server(caplog: pytest.LogCaptureFixture) -> None:
    heard: list[str] = []
    channel = opened(lambda text: heard.append(text) or [], ManualClock(1))
    channel.receive(b"\xff\xfe")
    assert heard == ["\ufffd\ufffd"] and not caplog.records


def test_a_flood_is_cut_with_one_error_and_the_next_second_is_heard() -> None:
    heard: list[str] = []
    clock = ManualClock(1)
    channel = opened(lambda text: heard.append(text) or [], clock)
    for number in range(2000):
        channel.receive(str(number))
    assert heard == [str(number) for number in range(500)]
    (error,) = map(json.loads, channel.sent)
    assert error["type"] == "error" and "more than 500 messages" in error["error"]["detail"]
    clock.advance(1.0)
    channel.receive("again")
    assert heard[-1] == "again"


def test_hundreds_of_other_channels_are_closed_with_one_warning(caplog: pytest.LogCaptureFixture) -> None:
    controls = ControlsChannel(lambda text: [])
    others = [FakeChannel("other") for _ in range(200)]
    for channel in others:
        controls.take(channel)  # type: ignore[arg-type]
    assert all(channel.closed for channel in others) and len(caplog.records) == 1
