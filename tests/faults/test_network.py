"""Video over a network with loss, delay, limited bandwidth and outages, in its own namespaces.

``scripts/fault_check`` measures recovery times and quality on an idle machine.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from ..network import Network, network
from .scene import PORT, answer_to_blocked, scene

BITRATE = 1_500_000
NARROW_KBIT = 1000
PUBLIC_ADDRESS = "203.0.113.5"


@pytest.fixture(scope="module")
def wire() -> Iterator[Network]:
    with network() as made:
        yield made


def test_an_offer_is_answered_without_udp(wire: Network) -> None:
    answered = answer_to_blocked(wire, "VP8")
    assert f" {wire.server.address} {PORT} typ host" in str(answered["answer"])


def test_an_offer_is_refused_without_udp_to_the_only_relay(wire: Network) -> None:
    answered = answer_to_blocked(wire, "VP8", relay_only=True)
    assert "try again later" in str(answered["refused"])


def test_a_viewer_connects_to_the_public_address_through_a_nat(wire: Network) -> None:
    with wire.translated(PUBLIC_ADDRESS), scene(wire, public_address=PUBLIC_ADDRESS) as playing:
        assert not playing.is_over()


@pytest.mark.parametrize(("probability", "delay_ms"), [(0.10, 0), (0.02, 50)])
def test_video_continues_while_packets_are_lost(wire: Network, probability: float, delay_ms: int) -> None:
    with scene(wire, codec="VP8", bitrate=BITRATE, delay_ms=delay_ms) as playing, wire.loss(probability):
        playing.wait_for_pictures(60, time.monotonic())
        assert not playing.is_over()


def test_video_continues_when_the_bandwidth_drops(wire: Network) -> None:
    with scene(wire, codec="VP8", bitrate=BITRATE) as playing, wire.limit(NARROW_KBIT, 100):
        playing.wait_for_rate(1.3e3 * NARROW_KBIT)
        playing.wait_for_pictures(30, time.monotonic())
        assert not playing.is_over()


def test_video_resumes_after_a_blackout(wire: Network) -> None:
    with scene(wire, codec="VP8", bitrate=BITRATE) as playing:
        with wire.blackout():
            time.sleep(2.0)
        playing.wait_for_pictures(30, time.monotonic())
        assert not playing.is_over()
