from __future__ import annotations

import gc
import subprocess
import sys
import threading
import weakref
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from realtime_engine.infra.acceleration import EmbeddingCache, EncoderLifecycle, content_key

WAIT_S = 10


class Encoder:
    """In a cycle with itself, as modules are."""

    alive: weakref.WeakSet[Encoder] = weakref.WeakSet()

    def __init__(self) -> None:
        self.itself = self
        self.calls: list[Any] = []
        Encoder.alive.add(self)

    def __call__(self, text: str) -> np.ndarray:
        if text == "bad":
            raise ValueError("this prompt")
        return np.full(4, len(text), np.float32)


@pytest.fixture(autouse=True)
def quick_collections() -> Iterator[None]:
    """What was there before a test need not be searched in every one of its collections."""
    gc.freeze()
    yield
    gc.unfreeze()
    assert not Encoder.alive


def encode(encoder: Encoder, text: str) -> np.ndarray:
    return encoder(text)


def test_the_encoder_exists_only_while_it_encodes():
    alive = []
    lifecycle = EncoderLifecycle(Encoder, lambda encoder, text: alive.append(len(Encoder.alive)) or encoder(text))
    assert not Encoder.alive
    assert lifecycle.encode("castle").tolist() == [6, 6, 6, 6]
    assert alive == [1] and not Encoder.alive


def test_a_small_encoder_is_released_without_a_search_for_cycles(monkeypatch):
    def search() -> None:
        raise AssertionError("it halts the process")

    monkeypatch.setattr(gc, "collect", search)
    lifecycle = EncoderLifecycle(object, lambda _, text: np.full(4, len(text)), thorough=False)
    assert lifecycle.encode("castle").tolist() == [6, 6, 6, 6]
    with pytest.raises(AssertionError, match="halts"):
        EncoderLifecycle(object, lambda _, text: np.full(4, len(text))).encode("castle")


def test_what_was_encoded_before_costs_no_load():
    lifecycle = EncoderLifecycle(Encoder, encode)
    first = lifecycle.encode("castle")
    assert lifecycle.encode("cas" + "tle") is first
    assert lifecycle.loads == 1
    lifecycle.encode("desert")
    assert lifecycle.loads == 2


def test_several_are_encoded_with_one_load_and_each_once():
    encoded = []
    lifecycle = EncoderLifecycle(Encoder, lambda encoder, text: encoded.append(text) or encoder(text))
    lifecycle.encode("a")
    embeddings = lifecycle.encode_all(["ccc", "a", "bb", "ccc"])
    assert [embedding[0] for embedding in embeddings] == [3, 1, 2, 3]
    assert embeddings[0] is embeddings[3]
    assert encoded == ["a", "ccc", "bb"] and lifecycle.loads == 2
    assert lifecycle.encode_all([]) == [] and lifecycle.loads == 2


def test_the_least_recently_used_is_forgotten_first():
    lifecycle = EncoderLifecycle(Encoder, encode, cache_bytes=32)  # two embeddings of 16 bytes
    for text in ("a", "b", "a", "c"):
        lifecycle.encode(text)
    assert lifecycle.loads == 3 and lifecycle.cached_bytes == 32
    lifecycle.encode("a")
    assert lifecycle.loads == 3
    lifecycle.encode("b")
    assert lifecycle.loads == 4


def test_one_request_may_be_larger_than_the_cache():
    lifecycle = EncoderLifecycle(Encoder, encode, cache_bytes=16)
    assert [embedding[0] for embedding in lifecycle.encode_all(["a", "bb", "ccc"])] == [1, 2, 3]
    assert lifecycle.cached_bytes == 16


def test_without_a_cache_every_request_loads():
    lifecycle = EncoderLifecycle(Encoder, encode, cache_bytes=0)
    lifecycle.encode("a")
    lifecycle.encode("a")
    assert lifecycle.loads == 2 and lifecycle.cached_bytes == 0


def test_clear_forgets_all():
    lifecycle = EncoderLifecycle(Encoder, encode)
    lifecycle.encode("a")
    lifecycle.clear()
    assert lifecycle.cached_bytes == 0
    lifecycle.encode("a")
    assert lifecycle.loads == 2


def test_a_failure_releases_the_encoder_even_while_the_error_is_held():
    lifecycle = EncoderLifecycle(Encoder, encode)
    with pytest.raises(ValueError, match="this prompt") as raised:
        lifecycle.encode_all(["a", "bad", "b"])
    assert raised.value.__traceback__ is not None and not Encoder.alive
    lifecycle.encode("a")
    assert lifecycle.loads == 1  # it was encoded before the failure
    assert lifecycle.encode("b")[0] == 1


def test_a_load_that_fails_comes_out_and_can_be_tried_again():
    attempts = iter([OSError("no file"), None])

    def load() -> Encoder:
        if error := next(attempts):
            raise error
        return Encoder()

    lifecycle = EncoderLifecycle(load, encode)
    with pytest.raises(OSError, match="no file"):
        lifecycle.encode("a")
    assert lifecycle.encode("a")[0] == 1


def test_threads_that_ask_for_the_same_share_one_load():
    lifecycle, embeddings, begin = EncoderLifecycle(Encoder, encode), [], threading.Barrier(4)

    def ask() -> None:
        begin.wait(WAIT_S)
        embeddings.append(lifecycle.encode("castle"))

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(WAIT_S)
    assert len(embeddings) == 4 and lifecycle.loads == 1


def test_a_view_does_not_keep_the_array_that_it_was_cut_from():
    whole: list[Any] = []

    def cut(encoder: Encoder, text: str) -> dict[str, np.ndarray]:
        array = np.arange(1000.0)
        whole.append(weakref.ref(array))
        return {"hidden": array[:4]}

    embedding = EncoderLifecycle(Encoder, cut).encode("a")
    assert whole[0]() is None and embedding["hidden"].tolist() == [0, 1, 2, 3]


def test_own_keys():
    lifecycle = EncoderLifecycle(Encoder, encode, key=str.casefold)
    lifecycle.encode("Castle")
    lifecycle.encode("CASTLE")
    assert lifecycle.loads == 1


def test_it_needs_no_torch(no_torch):
    assert EncoderLifecycle(Encoder, encode).encode("a")[0] == 1


def test_on_torch_embeddings_hold_neither_graph_nor_weights():
    import torch

    weights: list[Any] = []

    def load() -> Any:
        layer = torch.nn.Linear(256, 256)
        weights.append(weakref.ref(layer.weight))
        return layer

    lifecycle = EncoderLifecycle(load, lambda layer, number: [layer(torch.ones(256))[:2], layer.weight[number], "text"])
    cut, row, text = lifecycle.encode(3)
    assert weights[0]() is None and text == "text"
    assert cut.grad_fn is None and not row.requires_grad
    assert cut.untyped_storage().nbytes() == 8 and row.untyped_storage().nbytes() == 1024
    assert lifecycle.cached_bytes == 8 + 1024


class Plain:
    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self.used: list[tuple[str, int]] = []  # the most recently used last

    def put(self, key: str, size: int) -> None:
        self.used = [entry for entry in self.used if entry[0] != key]
        if size <= self.max_bytes:
            self.used.append((key, size))
        while sum(size for _, size in self.used) > self.max_bytes:
            del self.used[0]

    def get(self, key: str) -> None:
        self.used.sort(key=lambda entry: entry[0] == key)


OPERATIONS = st.lists(st.tuples(st.sampled_from("abcde"), st.none() | st.integers(0, 12)), max_size=30)


@given(OPERATIONS, st.integers(0, 20))
def test_it_holds_what_a_plain_one_holds(operations, max_bytes):
    cache, plain = EmbeddingCache(max_bytes), Plain(max_bytes)
    for key, size in operations:
        if size is not None:
            assert cache.put(key, (np.zeros(size, np.uint8), "text")) == (size <= max_bytes)
            plain.put(key, size)
        elif key in cache:
            cache.get(key)
            plain.get(key)
        assert {name for name in "abcde" if name in cache} == {name for name, _ in plain.used}
        assert cache.held_bytes == sum(size for _, size in plain.used) <= max_bytes
        assert len(cache) == len(plain.used)


def test_what_is_not_held():
    with pytest.raises(KeyError):
        EmbeddingCache(10).get("a")


def test_a_bound_below_zero():
    with pytest.raises(ValueError, match="not -1"):
        EmbeddingCache(-1)


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
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == content_key({"a": "é", "b": (1, None)})


@pytest.mark.parametrize("content", [object(), {1, 2}, np.array([object()])])
def test_anything_else_is_refused(content):
    with pytest.raises(TypeError, match="pass key="):
        content_key(content)


def test_tensors():
    import torch

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
