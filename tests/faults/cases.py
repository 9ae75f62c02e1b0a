"""The effect of each network fault on the video, measured against a budget."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from ..network import Network
from .scene import answer_to_blocked, gaps_s, median_delay_s, scene
from .scene_picture import FPS

_BITRATE = 1_500_000
_STEADY_S = 1.0
_SETTLED_S = 3.0
_BLACKOUT_S = 5.0
_NARROW_KBIT = 1000
_DELAY_MS = 50


@dataclass(frozen=True)
class Measure:
    """A value and its budget."""

    what: str
    value: float
    budget: float

    @property
    def is_over(self) -> bool:
        return self.value > self.budget

    def __str__(self) -> str:
        return f"{self.what:46} {self.value:8.3f}  budget {self.budget:.3f}"


def loss(network: Network, codec: str, probability: float, delay_ms: int = 0) -> list[Measure]:
    """Packets are lost for three seconds."""
    with scene(network, codec=codec, bitrate=_BITRATE, delay_ms=delay_ms) as playing:
        time.sleep(_STEADY_S)
        with network.loss(probability):
            started = time.monotonic()
            time.sleep(3.0)
            ended = time.monotonic()
        pictures = playing.seen(started, ended)
    thirds = [[p for p in pictures if started + i <= p.at_s < started + i + 1] for i in range(3)]
    delays = [median_delay_s(third) if third else float("inf") for third in thirds]
    longest = max(gaps_s(pictures, started, ended)) - 1 / FPS  # a loss begins a frame after the last right picture
    return [
        Measure("longest time without a right picture, s", longest, 0.25 + 2 * delay_ms / 1000),
        Measure("growth of the delay from the 1st to the 3rd s, s", delays[2] - delays[0], 0.05),
    ]


def bottleneck(network: Network, codec: str, queue_ms: int = 300) -> list[Measure]:
    """The bandwidth towards the viewer drops from unlimited to 1 Mb/s, with a queue of ``queue_ms``."""
    with scene(network, codec=codec, bitrate=_BITRATE) as playing:
        time.sleep(_STEADY_S)
        with network.limit(_NARROW_KBIT, queue_ms):
            started = time.monotonic()
            time.sleep(_SETTLED_S + 2.0)
            settled = started + _SETTLED_S
            rate = playing.sent_rate(settled, settled + 2.0)
            longest = max(gaps_s(playing.seen(started, settled + 2.0), started, settled + 2.0))
            earlier, later = (playing.seen(settled + i, settled + i + 1) for i in range(2))
    delays = [median_delay_s(pictures) if pictures else float("inf") for pictures in (earlier, later)]
    return [
        Measure("longest time without a right picture, s", longest, 1.0),
        Measure("sent rate 3 s after the step, share off 1 Mb/s", abs(rate / (1000 * _NARROW_KBIT) - 1), 0.30),
        Measure("delay from then on, s", delays[1], 0.25),
        Measure("its growth in a second, s", delays[1] - delays[0] if earlier else float("inf"), 0.05),
    ]


def blackout(network: Network, codec: str) -> list[Measure]:
    """Nothing passes for five seconds."""
    with scene(network, codec=codec, bitrate=_BITRATE) as playing:
        time.sleep(_STEADY_S)
        with network.blackout():
            time.sleep(_BLACKOUT_S)
        ended = time.monotonic()
        picture = playing.wait_for_picture(ended)
        time.sleep(0.5)
        delay = median_delay_s(playing.seen(picture.at_s, picture.at_s + 0.5))
    return [
        Measure("until video resumes, s", picture.at_s - ended, 2.0),
        Measure("delay from then on, s", delay, 0.25),
    ]


def blocked(network: Network, codec: str) -> list[Measure]:
    """UDP is blocked, with an unreachable TURN server configured."""
    return [
        Measure("until an offer is answered, s", answer_to_blocked(network, codec)["took_s"], 2.0),
        Measure("until it is refused, s", answer_to_blocked(network, codec, relay_only=True)["took_s"], 2.0),
    ]


CASES: Mapping[str, Callable[[Network, str], list[Measure]]] = {
    "2 % loss": lambda network, codec: loss(network, codec, 0.02),
    "10 % loss": lambda network, codec: loss(network, codec, 0.10),
    "50 ms each way, 2 % loss": lambda network, codec: loss(network, codec, 0.02, _DELAY_MS),
    "1 Mb/s bottleneck": bottleneck,
    "1 Mb/s, queue of 100 ms": lambda network, codec: bottleneck(network, codec, 100),
    "5 s blackout": blackout,
    "blocked UDP": blocked,
}
