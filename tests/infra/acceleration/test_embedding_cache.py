"""Compared with a plain list of what was used when."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from realtime_engine.infra.acceleration import EmbeddingCache


class Plain:
    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self.used: list[tuple[str, int]] = []  # the most recently used last

    def put(self, key: str, size: int) -> None:
        self.used = [entry for entry in self.used if entry[0] != key]
        if size <= self.max_bytes:
            self.used.append((key, size))
        while sum(size for _, size in self.used) > self.max_bytes:
            del self.used[0]

    def get(self, key: str) -> None:
        self.used.sort(key=lambda entry: entry[0] == key)


OPERATIONS = st.lists(st.tuples(st.sampled_from("abcde"), st.none() | st.integers(0, 12)), max_size=30)


@given(OPERATIONS, st.integers(0, 20))
def test_it_holds_what_a_plain_one_holds(operations, max_bytes):
    cache, plain = EmbeddingCache(max_bytes), Plain(max_bytes)
    for key, size in operations:
        if size is not None:
            assert cache.put(key, (np.zeros(size, np.uint8), "text")) == (size <= max_bytes)
            plain.put(key, size)
        elif key in cache:
            cache.get(key)
            plain.get(key)
        assert {name for name in "abcde" if name in cache} == {name for name, _ in plain.used}
        assert cache.held_bytes == sum(size for _, size in plain.used) <= max_bytes
        assert len(cache) == len(plain.used)


def test_what_is_not_held():
    with pytest.raises(KeyError):
        EmbeddingCache(10).get("a")


def test_a_bound_below_zero():
    with pytest.raises(ValueError, match="not -1"):
        EmbeddingCache(-1)
