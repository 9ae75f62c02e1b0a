"""Where the time of a chunk goes, by torch's profiler."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.profiler import ProfilerActivity, profile, record_function

from realtime_engine.integrations.dream.inference import Chunks, Dreamer, NoiseSettings, Pictures, State
from realtime_engine.integrations.dream.level import CONTROLS
from realtime_engine.integrations.dream.weights import Weights

PARTS = ("dynamics", "light field", "decoder", "upscale")
_SHAPE = (1, 320, 480, 3)


class Marked(Dreamer):
    """A dreamer whose parts have names in a profile."""

    def step(self, state: State, controls: Tensor) -> State:
        with record_function("dynamics"):
            return super().step(state, controls)

    def see(self, places: Tensor, codes: Tensor, noise: Tensor | None = None) -> Tensor:
        with record_function("light field"):
            return super().see(places, codes, noise)

    def decode(self, latents: Tensor) -> Pictures:
        with record_function("decoder"):
            return super().decode(latents)


@dataclass(frozen=True)
class Profile:
    """Milliseconds a chunk of each part, and the operations with the largest shares of all time in operations."""

    parts: dict[str, float]
    operations: dict[str, float]


def profile_parts(weights: Weights, rows: int, chunks: int) -> Profile:
    """Of a batch of so many rows."""
    dreamer = Marked(weights.world(torch.device("cpu")))
    maker = Chunks(dreamer, weights.sizes, _SHAPE, 2)
    state, codes = maker.at_rest(rows), torch.zeros(rows, maker.code)
    state.places[:, :2] = 4.5
    controls = np.full((rows, CONTROLS), 0.3, np.float32)
    astray = NoiseSettings(np.zeros(rows, np.int64), np.zeros(rows, np.int64), np.zeros(rows, np.float32))
    pictures = {row: np.empty(_SHAPE, np.uint8) for row in range(rows)}

    def make(state: State) -> State:
        state, latents = maker.advance(state, codes, controls, astray)
        with record_function("show"):
            maker.decode(latents, pictures)
        return state

    with torch.inference_mode():
        for _ in range(3):
            state = make(state)
        with profile(activities=[ProfilerActivity.CPU]) as profiled:
            for _ in range(chunks):
                state = make(state)
    events = profiled.key_averages()
    spent = {event.key: event.cpu_time_total / 1e3 / chunks for event in events}
    parts = {part: spent[part] for part in PARTS[:3]}
    parts["upscale"] = spent["show"] - spent["decoder"]
    own = {event.key: float(event.self_cpu_time_total) for event in events if event.key.startswith("aten::")}
    total = sum(own.values())
    largest = sorted(own, key=own.__getitem__, reverse=True)[:4]
    return Profile(parts, {name.removeprefix("aten::"): own[name] / total for name in largest})
