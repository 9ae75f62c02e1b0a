from __future__ import annotations

import collections
import dataclasses
import threading
import types

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from realtime_engine.core.snapshot import snapshot

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


def test_what_cannot_be_copied_is_shared():
    lock = threading.Lock()
    taken = snapshot({"device": lock, "state": [1]})
    assert taken["device"] is lock


def test_an_object_whose_copy_raises_anything_is_shared():
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
        while value:  # take it apart: freeing it in one go is deep as well
            value = value.pop()


def test_a_hundred_levels_are_fine():
    value: list[object] = []
    for _ in range(100):
        value = [value]
    assert snapshot(value) == value
