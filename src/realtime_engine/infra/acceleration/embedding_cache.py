"""Embeddings by key, the least recently used forgotten first."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

from .tree import leaves


class EmbeddingCache:
    """Holds at most ``max_bytes`` of tensors and arrays. Not for use by several threads at once."""

    def __init__(self, max_bytes: int) -> None:
        if max_bytes < 0:
            raise ValueError(f"max_bytes must be at least 0, not {max_bytes}")
        self._max_bytes = max_bytes
        self._entries: OrderedDict[str, tuple[Any, int]] = OrderedDict()
        self._held_bytes = 0

    @property
    def held_bytes(self) -> int:
        return self._held_bytes

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, key: str) -> bool:
        return key in self._entries

    def get(self, key: str) -> Any:
        """The embedding, now the most recently used one.

        Raises:
            KeyError: it is not held.
        """
        self._entries.move_to_end(key)
        return self._entries[key][0]

    def put(self, key: str, embedding: Any) -> bool:
        """Hold an embedding and forget others for it; false if it is larger than everything that may be held."""
        self.forget(key)
        size = bytes_of(embedding)
        if size > self._max_bytes:
            return False
        while self._held_bytes + size > self._max_bytes:
            self.forget(next(iter(self._entries)))
        self._entries[key] = (embedding, size)
        self._held_bytes += size
        return True

    def forget(self, key: str) -> None:
        """Let go of an embedding, if it is held."""
        _, size = self._entries.pop(key, (None, 0))
        self._held_bytes -= size

    def clear(self) -> None:
        self._entries.clear()
        self._held_bytes = 0


def bytes_of(embedding: Any) -> int:
    """Bytes of all tensors and arrays in it."""
    return sum(int(getattr(leaf, "nbytes", 0)) for leaf in leaves(embedding))
