from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest

from realtime_engine.infra.webrtc.data_channel import ControlsChannel
from realtime_engine.testing import ManualClock


class FakeChannel(SimpleNamespace):
    """A data channel that records its use."""

    def __init__(self, label: str = "controls") -> None:
        super().__init__(maxPacketLifeTime=None, maxRetransmits=None, ordered=True, readyState="open", bufferedAmount=0)
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
    ControlsChannel(on_text, clock).attach(channel)  # type: ignore[arg-type]
    return channel


def test_bytes_that_are_not_text_are_replaced(caplog: pytest.LogCaptureFixture) -> None:
    received: list[str] = []
    channel = opened(lambda text: received.append(text) or [], ManualClock(1))
    channel.receive(b"\xff\xfe")
    assert received == ["\ufffd\ufffd"] and not caplog.records


def test_messages_beyond_the_rate_are_dropped_with_one_error_a_second() -> None:
    received: list[str] = []
    clock = ManualClock(1)
    channel = opened(lambda text: received.append(text) or [], clock)
    for number in range(2000):
        channel.receive(str(number))
    assert received == [str(number) for number in range(500)]
    (error,) = map(json.loads, channel.sent)
    assert error["type"] == "error" and "more than 500 messages a second" in error["error"]["detail"]
    clock.advance(1.0)
    channel.receive("again")
    assert received[-1] == "again"
    for _ in range(2000):
        channel.receive("flood")
    assert len(received) == 1000 and len(channel.sent) == 2


def test_a_steady_flood_gets_the_rate() -> None:
    received: list[str] = []
    clock = ManualClock(1)
    channel = opened(lambda text: received.append(text) or [], clock)
    for _ in range(10_000):
        channel.receive("")
        clock.advance(0.001)
    assert len(received) == pytest.approx(500 + 10 * 500, abs=2)
    assert len(channel.sent) <= 10


def test_other_channels_are_closed_with_one_warning(caplog: pytest.LogCaptureFixture) -> None:
    controls = ControlsChannel(lambda text: [])
    others = [FakeChannel("other") for _ in range(200)]
    for channel in others:
        controls.attach(channel)  # type: ignore[arg-type]
    assert all(channel.closed for channel in others) and len(caplog.records) == 1


def test_a_long_message_counts_as_several() -> None:
    received: list[int] = []
    clock = ManualClock(1)
    channel = opened(lambda text: received.append(len(text)) or [], clock)
    for _ in range(20):
        channel.receive("x" * 64_000)
    assert len(received) == 7
    clock.advance(1.0)
    channel.receive("x" * 600_000)
    assert received[-1] == 600_000, "the longest one costs what a second allows"
