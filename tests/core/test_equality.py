from __future__ import annotations

import collections

import numpy as np
import pytest
from hypothesis import given

from realtime_engine.core.equality import same_value
from realtime_engine.core.snapshot import snapshot

from .test_snapshot import VALUES


class Raises:
    def __eq__(self, other: object) -> bool:
        raise RuntimeError("no comparison")

    __hash__ = None


class Vector:
    """Compares like a tensor: item by item."""

    def __eq__(self, other: object) -> list[bool]:
        return [True, False]

    __hash__ = None


class Ambiguous:
    """Compares to something that has no truth value, like an array of several booleans."""

    def __eq__(self, other: object) -> np.ndarray:
        return np.array([True, False])

    __hash__ = None


@given(VALUES)
def test_a_copy_is_the_same(value):
    assert same_value(value, snapshot(value))


@given(VALUES, VALUES)
def test_it_agrees_with_plain_equality_where_that_is_defined(left, right):
    assert same_value(left, right) == (left == right)


@given(VALUES, VALUES)
def test_it_is_symmetric(left, right):
    assert same_value(left, right) == same_value(right, left)


def test_arrays_by_value():
    assert same_value(np.arange(3), np.arange(3))
    assert not same_value(np.arange(3), np.arange(4))
    assert not same_value(np.zeros((2, 3)), np.zeros((3, 2)))


def test_arrays_of_another_type_differ():
    assert not same_value(np.zeros(3, np.float32), np.zeros(3, np.float64))


def test_an_array_is_no_list():
    assert not same_value(np.zeros(1), [0.0])
    assert not same_value([0.0], np.zeros(1))
    assert not same_value(np.array(1), 1)


def test_nested_arrays():
    left = {"image": [np.arange(3), {"mask": np.ones((2, 2))}]}
    assert same_value(left, snapshot(left))
    changed = snapshot(left)
    changed["image"][1]["mask"][0, 0] = 0
    assert not same_value(left, changed)


def test_mappings_of_different_kinds_are_compared_by_content():
    assert same_value(collections.OrderedDict(a=np.ones(2)), {"a": np.ones(2)})


def test_missing_and_extra_keys_differ():
    assert not same_value({"a": 1}, {})
    assert not same_value({}, {"a": 1})
    assert not same_value({"a": None}, {"b": None})


def test_lists_are_not_tuples_and_prefixes_differ():
    assert not same_value([1], (1,))
    assert not same_value([1, 2], [1])


@pytest.mark.parametrize("kind", [Raises, Vector, Ambiguous])
def test_values_that_do_not_compare_to_a_boolean_differ_and_never_raise(kind):
    assert not same_value(kind(), kind())
    assert not same_value({"a": [kind()]}, {"a": [kind()]})
    assert not same_value(np.array([kind()], dtype=object), np.array([kind()], dtype=object))


@pytest.mark.parametrize("kind", [Raises, Vector, Ambiguous])
def test_the_same_object_is_the_same_whatever_its_comparison_does(kind):
    value = kind()
    assert same_value(value, value)
    assert same_value({"a": (value,)}, {"a": (value,)})


def test_numpy_scalars():
    assert same_value(np.float32(1), np.float32(1))
    assert not same_value(np.float32(1), np.float32(2))
    assert type(same_value(np.float32(1), np.float32(1))) is bool


def test_nan_in_an_equal_array_is_no_change():
    """A mask with holes that is sent with every tick must not cost an encode with every tick."""
    assert same_value(np.array([1.0, np.nan]), np.array([1.0, np.nan]))


def test_values_that_nest_too_deeply_differ_and_never_raise():
    def nest(levels: int) -> list:
        value: list = []
        for _ in range(levels):
            value = [value]
        return value

    assert not same_value(nest(100_000), nest(100_000))
    assert same_value(nest(50), nest(50))


def test_a_nan_is_no_change_wherever_it_stands():
    nan = float("nan")
    assert same_value(nan, float("nan"))
    assert same_value({"a": [np.float32(nan)]}, {"a": [np.float32("nan")]})
    assert not same_value(nan, 1.0)
