from __future__ import annotations

from typing import Any

import pytest

from realtime_engine.integrations.dream.network import DreamNetwork, DreamSizes


@pytest.mark.parametrize("value", [0, -1, 1.5, True, "8", None])
def test_sizes_are_whole_numbers(value: Any) -> None:
    with pytest.raises(ValueError, match="field_width must be a whole number of 1 or more, got"):
        DreamSizes(field_width=value)


def test_the_network_has_few_weights() -> None:
    count = sum(parameter.numel() for parameter in DreamNetwork(DreamSizes()).parameters())
    assert count * 2 < 8_000_000  # bytes, in half precision


def test_every_size_changes_the_network() -> None:
    shapes = {name: tensor.shape for name, tensor in DreamNetwork(DreamSizes()).state_dict().items()}
    for name, value in vars(DreamSizes()).items():
        others = {n: t.shape for n, t in DreamNetwork(DreamSizes(**{name: value * 2})).state_dict().items()}
        assert others.keys() == shapes.keys() and others != shapes
