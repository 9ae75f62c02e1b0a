"""Copies that later mutation by the sender cannot reach."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import numpy as np

_ATOMS = frozenset({type(None), bool, int, float, complex, str, bytes, frozenset, range})


def snapshot(value: Any) -> Any:
    """Copy ``value`` deeply: mappings become ``dict``, sequences and arrays keep their type.

    An object that cannot be copied (an open device, a lock) is shared as it is; its owner must not change it.

    Raises:
        ValueError: when the value refers to itself or nests too deeply.
    """
    try:
        return _copy(value)
    except RecursionError:
        raise ValueError("a message must not refer to itself or nest more than a few hundred levels") from None


def _copy(value: Any) -> Any:
    kind = type(value)
    if kind in _ATOMS:
        return value
    if isinstance(value, Mapping):
        return {key: _copy(item) for key, item in value.items()}
    if kind is list or kind is tuple or kind is set:
        return kind(_copy(item) for item in value)
    if isinstance(value, np.ndarray) and not value.dtype.hasobject:
        return value.copy()
    return _deepcopy_or_share(value)


def _deepcopy_or_share(value: Any) -> Any:
    try:
        return copy.deepcopy(value)
    except RecursionError:
        raise
    except Exception:  # any class may refuse to be copied, in its own way
        return value
