from __future__ import annotations

import pytest

from realtime_engine.core.rows import EncodeSkipBudget


def chunks_of(ticks: int, encode_steps: int) -> int:
    """A row whose value changes with every tick and whose encode takes ``encode_steps`` ticks."""
    budget, chunks, left = EncodeSkipBudget(), 0, 0
    for _ in range(ticks):
        if left == 0 and budget.allows:
            left = encode_steps
        if left:
            left -= 1
            budget.record_skip()
        else:
            chunks += 1
            budget.record_chunk()
    return chunks


@pytest.mark.parametrize("encode_steps", [1, 2, 5, 12])
def test_a_value_that_always_changes_leaves_80_percent_of_the_chunks(encode_steps):
    assert chunks_of(1000, encode_steps) >= 800


@pytest.mark.parametrize("encode_steps", [1, 2, 5, 12])
def test_a_value_that_always_changes_is_still_encoded(encode_steps):
    assert 1000 - chunks_of(1000, encode_steps) >= 100, "a value that never rests must be encoded now and then"


def test_two_changes_in_a_row_are_encoded_at_once_and_a_third_waits():
    budget = EncodeSkipBudget()
    for _ in range(2):
        assert budget.allows
        budget.record_skip()
    assert not budget.allows


def test_chunks_earn_skips():
    budget = EncodeSkipBudget()
    budget.record_skip()
    budget.record_skip()
    for _ in range(5):
        assert not budget.allows
        budget.record_chunk()
    assert budget.allows


def test_at_most_two_skips_are_saved():
    budget = EncodeSkipBudget()
    for _ in range(10_000):
        budget.record_chunk()
    budget.record_skip()
    budget.record_skip()
    assert not budget.allows
