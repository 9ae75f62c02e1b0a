from __future__ import annotations

import pytest
import torch
from torch import nn

from realtime_engine.integrations.dream.row_linear import RowLinear


def both(inputs: int, outputs: int, bias: bool) -> tuple[RowLinear, nn.Linear]:
    torch.manual_seed(inputs)
    plain = nn.Linear(inputs, outputs, bias=bias)
    ours = RowLinear(inputs, outputs, bias=bias)
    ours.load_state_dict(plain.state_dict())
    return ours, plain


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize(("inputs", "outputs"), [(6, 8), (8, 3), (58, 160), (160, 2)])
def test_the_bits_of_a_row_follow_from_the_row(inputs: int, outputs: int, bias: bool) -> None:
    layer, plain = both(inputs, outputs, bias)
    with torch.inference_mode():
        for count in (1, 2, 3, 5, 8, 17):
            rows = torch.randn(count, inputs)
            together = layer(rows)
            alone = torch.cat([layer(row[None]) for row in rows])
            turned = torch.cat([layer(rows.roll(by, 0))[by : by + 1] for by in range(count)])
            assert torch.equal(together, alone)
            assert torch.equal(turned, together[:1].expand(count, -1))
            torch.testing.assert_close(together, plain(rows))


def test_it_learns_as_a_linear_layer_does() -> None:
    ours, plain = both(5, 4, True)
    rows = torch.randn(7, 5)
    for layer in (ours, plain):
        layer(rows).square().sum().backward()
    assert torch.equal(ours(rows), plain(rows))
    assert ours.weight.grad is not None and plain.weight.grad is not None
    assert torch.equal(ours.weight.grad, plain.weight.grad)
