from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from realtime_engine.infra.acceleration import content_key

ARRAY = np.arange(6, dtype=np.int32)
DIFFERENT = [
    "1",
    b"1",
    1,
    1.0,
    True,
    None,
    "",
    "ab",
    ("a", "b"),
    ("ab",),
    ("a", ("b",)),
    {"a": "b"},
    {"b": "a"},
    ARRAY,
    ARRAY.astype(np.int64),
    ARRAY.reshape(2, 3),
    ARRAY.reshape(3, 2),
    ARRAY.tobytes(),
    np.int32(1),
]


def test_different_content_has_different_keys():
    assert len({content_key(content) for content in DIFFERENT}) == len(DIFFERENT)


def test_equal_content_has_equal_keys():
    assert content_key({"a": 1, "b": [ARRAY]}) == content_key({"b": [ARRAY.copy()], "a": 1})
    assert content_key(np.arange(12, dtype=np.int32)[::2]) == content_key(np.arange(0, 12, 2, dtype=np.int32))
    assert content_key(bytearray(b"x")) == content_key(b"x")


def test_the_key_is_the_same_in_another_process():
    program = (
        "from realtime_engine.infra.acceleration import content_key; print(content_key({'a': 'é', 'b': (1, None)}))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=30)
    assert done.stdout.strip() == content_key({"a": "é", "b": (1, None)})


@pytest.mark.parametrize("content", [object(), {1, 2}, np.array([object()])])
def test_anything_else_is_refused(content):
    with pytest.raises(TypeError, match="pass key="):
        content_key(content)


def test_tensors():
    torch = pytest.importorskip("torch")
    tensors = [
        torch.arange(6),
        torch.arange(6).reshape(2, 3),
        torch.arange(6).to(torch.bfloat16),
        torch.tensor(True),
        torch.ones(3, requires_grad=True),
        torch.empty(0),
    ]
    assert len({content_key(tensor) for tensor in tensors}) == len(tensors)
    assert content_key(torch.arange(12)[::2]) == content_key(torch.arange(0, 12, 2))
