"""The encoder, which is there only while something new is looked at."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ...infra.acceleration import EncoderLifecycle
from .attaching import seed_picture
from .dreamer import Seen, encode
from .light_field import LightField
from .pictures import Encoder
from .weights import Weights

_REFERENCE_SEED = 0
_KEPT_BYTES = 2**16  # of numbers: some thousand looks, each of which takes a kilobyte with what Python adds


class Eyes:
    """Looks at pictures. What was seen is kept, the encoder's weights are not."""

    def __init__(self, weights: Weights, field: LightField, device: torch.device) -> None:
        self._lifecycle: EncoderLifecycle[Encoder, NDArray[np.uint8]] = EncoderLifecycle(
            load=lambda: weights.encoder(device),
            encode=lambda encoder, picture: _on_host(encode(encoder, field, picture)),
            cache_bytes=_KEPT_BYTES,
            name="the dream's encoder",
            thorough=False,  # a few megabytes without cycles, while all rows wait
        )

    def look(self, pictures: Sequence[NDArray[np.uint8]]) -> list[Seen]:
        """Where each picture was taken, and in which theme; on the host, so that any stream may use it."""
        return [Seen(*seen) for seen in self._lifecycle.encode_all(pictures)]

    def codes_of(self, themes: Sequence[str]) -> list[Tensor]:
        """The code of each theme, as a picture in its colours has it."""
        return [seen.code for seen in self.look([seed_picture(_REFERENCE_SEED, theme) for theme in themes])]


def _on_host(seen: Seen) -> Seen:
    """What one lane has looked at is kept for all lanes, which do not wait for each other's streams."""
    return Seen(seen.place.cpu(), seen.code.cpu())
