from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from realtime_engine.examples.pattern import chunk_of, digest


def test_a_digest_has_64_bits():
    assert all(0 <= digest(value) < 2**64 for value in (None, 1, "x", {}, [], np.zeros(3)))


def test_the_order_of_a_mapping_does_not_matter_and_that_of_a_sequence_does():
    assert digest({"a": 1, "b": 2}) == digest({"b": 2, "a": 1})
    assert digest([1, 2]) != digest([2, 1])


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (1, 2),
        (1, "1"),
        (1, 1.0),
        (True, 1),
        (None, "None"),
        ({"a": 1}, {"a": 2}),
        ({"a": 1}, {"b": 1}),
        ({}, []),
        ([1, [2]], [[1], 2]),
        (["a", "b"], ["a,b"]),
        (["ab", ""], ["a", "b"]),
        (np.zeros(3), np.zeros(4)),
        (np.zeros(4), np.zeros((2, 2))),
        (np.zeros(3, np.float32), np.zeros(3, np.int32)),
    ],
)
def test_different_values_have_different_digests(left, right):
    assert digest(left) != digest(right)


def test_an_arrays_layout_in_memory_does_not_matter():
    array = np.arange(6).reshape(2, 3)
    assert digest(array) == digest(np.asfortranarray(array))


def test_a_digest_is_the_same_in_another_process():
    value = "{'b': [1, 'x'], 'a': None}"
    program = f"from realtime_engine.examples.pattern import digest; print(digest({value}))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert int(done.stdout) == digest({"a": None, "b": [1, "x"]})


@pytest.mark.parametrize("shape", [(2, 4, 4, 3), (1,), (5, 1), ()])
def test_a_chunk_has_its_shape_and_is_uint8(shape):
    chunk = chunk_of(7, shape)
    assert chunk.shape == shape
    assert chunk.dtype == np.uint8


def test_a_chunk_depends_on_its_state_and_on_nothing_else():
    np.testing.assert_array_equal(chunk_of(7, (2, 4, 4, 3)), chunk_of(7, (2, 4, 4, 3)))
    differing = np.mean(chunk_of(7, (2, 4, 4, 3)) != chunk_of(8, (2, 4, 4, 3)))
    assert differing > 0.9


@pytest.mark.parametrize("state", [0, 2**64 - 1, 2**64, -1])
def test_any_state_will_do(state):
    assert chunk_of(state, (4,)).shape == (4,)


def test_chunks_do_not_share_memory():
    assert not np.shares_memory(chunk_of(1, (4,)), chunk_of(1, (4,)))
