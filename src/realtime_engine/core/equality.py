"""Equality of conditioning values that never raises."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np


def same_value(left: Any, right: Any) -> bool:
    """Whether two conditioning values are equal, nested mappings, sequences and arrays included.

    A value whose comparison raises, or gives no plain boolean (tensors of some libraries), counts as different.
    """
    if left is right:
        return True
    if isinstance(left, np.ndarray) or isinstance(right, np.ndarray):
        return _same_array(left, right)
    if isinstance(left, Mapping) and isinstance(right, Mapping):
        return same_mapping(left, right)
    if type(left) is type(right) and isinstance(left, (list, tuple)):
        return len(left) == len(right) and all(map(same_value, left, right))
    try:
        equal = left == right
        return equal if isinstance(equal, bool) else isinstance(equal, np.bool_) and bool(equal)
    except Exception:  # any class may define a comparison that raises anything
        return False


def same_mapping(left: Mapping[str, Any], right: Mapping[str, Any]) -> bool:
    """Same keys, same values."""
    return left.keys() == right.keys() and all(same_value(value, right[key]) for key, value in left.items())


def _same_array(left: Any, right: Any) -> bool:
    if not isinstance(left, np.ndarray) or not isinstance(right, np.ndarray):
        return False
    if left.dtype != right.dtype or left.shape != right.shape:
        return False
    if left.dtype.hasobject:
        return all(map(same_value, left.ravel().tolist(), right.ravel().tolist()))
    return bool(np.array_equal(left, right, equal_nan=left.dtype.kind in "fc"))
