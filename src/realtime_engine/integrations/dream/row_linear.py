"""A linear layer for a batch of which nobody may see how large it is, nor where in it they are."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class RowLinear(nn.Linear):
    """``nn.Linear`` for (n, inputs), where a row's bits depend on that row alone as long as no gradients are wanted.

    A product of matrices is computed in tiles, and rows in the last tile, or in a batch of another size, are rounded in
    another way. A product for each row leaves nothing to divide; it costs more, which does not show in small layers.
    The same happens to what follows, a SiLU for one, where a row does not fill whole vector registers: outputs should
    be a multiple of 32 where something other than sums and products comes next.
    """

    def forward(self, rows: Tensor) -> Tensor:
        if torch.is_grad_enabled():
            return super().forward(rows)
        count = len(rows)
        products = torch.bmm(rows[:, None], self.weight.t().expand(count, -1, -1))[:, 0]
        return products if self.bias is None else products + self.bias
