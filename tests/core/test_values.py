from __future__ import annotations

import collections
import dataclasses
import threading
import types

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from realtime_engine.core.values import same_value, snapshot

ATOMS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5)
VALUES = st.recursive(
    ATOMS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner, max_size=4)
)


@given(VALUES)
def test_a_snapshot_equals_what_it_was_taken_of(value):
    assert snapshot(value) == value


def scribble(value: object) -> None:
    """Change everything that can be changed, deep down."""
    if isinstance(value, dict):
        for item in value.values():
            scribble(item)
        value["scribbled"] = True
    elif isinstance(value, list):
        for item in value:
            scribble(item)
        value.append("scribbled")


@given(VALUES)
def test_later_changes_do_not_reach_a_snapshot(value):
    taken = snapshot(value)
    again = snapshot(taken)
    scribble(value)
    assert taken == again


def test_arrays_are_copied_with_type_and_layout_of_values():
    array = np.arange(6, dtype=np.float32).reshape(2, 3)
    taken = snapshot({"image": array})
    array[:] = 0
    assert taken["image"].dtype == np.float32
    np.testing.assert_array_equal(taken["image"], np.arange(6).reshape(2, 3))


def test_a_view_does_not_keep_its_base_alive():
    base = np.zeros((1000, 1000))
    assert snapshot(base[:2, :2]).base is None


def test_an_array_of_objects_is_copied_deeply():
    inner = [1]
    array = np.array([inner, None], dtype=object)
    taken = snapshot(array)
    inner.append(2)
    assert taken[0] == [1]


def test_any_mapping_becomes_a_dict():
    for mapping in (collections.OrderedDict(a=[1]), types.MappingProxyType({"a": [1]}), collections.UserDict(a=[1])):
        taken = snapshot(mapping)
        assert type(taken) is dict
        assert taken == {"a": [1]}


def test_sequences_keep_their_type():
    Point = collections.namedtuple("Point", "x y")
    assert type(snapshot((1, [2]))) is tuple
    assert snapshot(Point(1, [2])) == Point(1, [2])
    assert type(snapshot(Point(1, [2]))) is Point
    assert snapshot({1, 2}) == {1, 2}


def test_a_mutable_thing_inside_a_tuple_is_copied():
    inner = [1]
    taken = snapshot((inner,))
    inner.append(2)
    assert taken == ([1],)


def test_a_bytearray_is_copied():
    value = bytearray(b"abc")
    taken = snapshot(value)
    value[0] = 0
    assert taken == b"abc"


def test_objects_are_copied():
    @dataclasses.dataclass
    class Box:
        items: list[int]

    box = Box([1])
    taken = snapshot([box])
    box.items.append(2)
    assert taken[0].items == [1]


def test_an_object_that_cannot_be_copied_is_shared():
    lock = threading.Lock()
    taken = snapshot({"device": lock, "state": [1]})
    assert taken["device"] is lock


def test_an_object_whose_copy_raises_is_shared():
    class Stubborn:
        def __deepcopy__(self, memo: object) -> object:
            raise ZeroDivisionError

    value = Stubborn()
    assert snapshot([value])[0] is value


def test_a_value_that_holds_itself_is_refused():
    value: list[object] = []
    value.append(value)
    with pytest.raises(ValueError, match="refer to itself"):
        snapshot({"loop": value})


def test_a_mapping_that_holds_itself_is_refused():
    value: dict[str, object] = {}
    value["self"] = value
    with pytest.raises(ValueError, match="refer to itself"):
        snapshot(value)


def test_a_value_that_nests_too_deeply_is_refused():
    value: list[object] = []
    for _ in range(100_000):
        value = [value]
    try:
        with pytest.raises(ValueError, match="nest"):
            snapshot(value)
    finally:
        while value:  # unnest it: freeing it at once recurses as deeply
            value = value.pop()


def test_a_hundred_levels_are_fine():
    value: list[object] = []
    for _ in range(100):
        value = [value]
    assert snapshot(value) == value


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
