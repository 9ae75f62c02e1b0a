"""Hashes of conditioning and pixels made of them, the same in every process and on every machine."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

_ODD = 0x9E3779B97F4A7C15  # 2**64 / golden ratio, an even spread over 64 bits


def digest(value: Any) -> int:
    """A 64-bit hash of a conditioning value: mappings (in any order), sequences, arrays, scalars and text."""
    return int.from_bytes(hashlib.blake2b(_canonical(value), digest_size=8).digest(), "little")


def _canonical(value: Any) -> bytes:
    if isinstance(value, Mapping):
        return b"{" + b",".join(sorted(_canonical(key) + b":" + _canonical(item) for key, item in value.items())) + b"}"
    if isinstance(value, (list, tuple)):
        return b"[" + b",".join(map(_canonical, value)) + b"]"
    if isinstance(value, np.ndarray):
        return f"{value.dtype.str}{value.shape}".encode() + value.tobytes()
    return f"{type(value).__name__}={value!r}".encode()


def chunk_of(state: int, shape: tuple[int, ...]) -> NDArray[np.uint8]:
    """A new uint8 array of ``shape``, filled by a multiplicative hash of ``state`` and the index."""
    index = np.arange(int(np.prod(shape)), dtype=np.uint64)
    mixed = (index + np.uint64(state & (2**64 - 1))) * np.uint64(_ODD)
    mixed ^= mixed >> np.uint64(29)
    pixels: NDArray[np.uint8] = (mixed * np.uint64(_ODD) >> np.uint64(56)).astype(np.uint8)
    return pixels.reshape(shape)
