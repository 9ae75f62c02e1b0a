"""Comparing and copying conditioning values."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import numpy as np


def same_value(left: Any, right: Any) -> bool:
    """Whether two conditioning values are equal, nested mappings, sequences and arrays included. Does not raise.

    NaN equals NaN; otherwise a value that holds one would change with every message. A value whose comparison raises,
    gives no plain boolean (tensors of some libraries) or nests too deeply counts as different.
    """
    try:
        return _same(left, right)
    except RecursionError:
        return False


def _same(left: Any, right: Any) -> bool:
    if left is right:
        return True
    if isinstance(left, np.ndarray) or isinstance(right, np.ndarray):
        return _same_array(left, right)
    if isinstance(left, Mapping) and isinstance(right, Mapping):
        return left.keys() == right.keys() and all(_same(value, right[key]) for key, value in left.items())
    if type(left) is type(right) and isinstance(left, (list, tuple)):
        return len(left) == len(right) and all(map(_same, left, right))
    try:
        return _is_true(left == right) or (_is_true(left != left) and _is_true(right != right))
    except RecursionError:
        raise
    except Exception:  # a class may raise anything when it is compared
        return False


def _is_true(outcome: Any) -> bool:
    return isinstance(outcome, (bool, np.bool_)) and bool(outcome)


def _same_array(left: Any, right: Any) -> bool:
    if not isinstance(left, np.ndarray) or not isinstance(right, np.ndarray):
        return False
    if left.dtype != right.dtype or left.shape != right.shape:
        return False
    if left.dtype.hasobject:
        return all(map(_same, left.ravel().tolist(), right.ravel().tolist()))
    return bool(np.array_equal(left, right, equal_nan=left.dtype.kind in "fc"))


_ATOMS = frozenset({type(None), bool, int, float, complex, str, bytes, frozenset, range})


def snapshot(value: Any) -> Any:
    """A deep copy of ``value``: mappings become ``dict``, sequences and arrays keep their type.

    An object that cannot be copied (an open device, a lock) is shared; its owner must not change it.

    Raises:
        ValueError: the value refers to itself or nests too deeply.
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
    except Exception:  # a class may raise anything when it is copied
        return value
