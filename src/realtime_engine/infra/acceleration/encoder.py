"""An encoder that is needed now and then (a prompt, a first image) and would else take memory all the time."""

from __future__ import annotations

import gc
import hashlib
import logging
import sys
import threading
import time
import traceback
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

import numpy as np

from ._torch import need_torch
from .cuda_graph import leaves, mapped


class EmbeddingCache:
    """Holds at most ``max_bytes`` of tensors and arrays. Not for use by several threads at once."""

    def __init__(self, max_bytes: int) -> None:
        if max_bytes < 0:
            raise ValueError(f"max_bytes must be at least 0, not {max_bytes}")
        self._max_bytes = max_bytes
        self._entries: OrderedDict[str, tuple[Any, int]] = OrderedDict()
        self._held_bytes = 0

    @property
    def held_bytes(self) -> int:
        return self._held_bytes

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, key: str) -> bool:
        return key in self._entries

    def get(self, key: str) -> Any:
        """The embedding, now the most recently used one.

        Raises:
            KeyError: it is not held.
        """
        self._entries.move_to_end(key)
        return self._entries[key][0]

    def put(self, key: str, embedding: Any) -> bool:
        """Hold an embedding and forget others for it; false if it is larger than everything that may be held."""
        self.forget(key)
        size = bytes_of(embedding)
        if size > self._max_bytes:
            return False
        while self._held_bytes + size > self._max_bytes:
            self.forget(next(iter(self._entries)))
        self._entries[key] = (embedding, size)
        self._held_bytes += size
        return True

    def forget(self, key: str) -> None:
        """Let go of an embedding, if it is held."""
        _, size = self._entries.pop(key, (None, 0))
        self._held_bytes -= size

    def clear(self) -> None:
        self._entries.clear()
        self._held_bytes = 0


def bytes_of(embedding: Any) -> int:
    """Bytes of all tensors and arrays in it."""
    return sum(int(getattr(leaf, "nbytes", 0)) for leaf in leaves(embedding))


def content_key(content: Any) -> str:
    """SHA-256 over text, bytes, numbers, arrays and tensors, alone or inside tuples, lists and dicts.

    Equal content has the same key in every process; ``"1"``, ``1``, ``1.0`` and ``b"1"`` have different ones, and
    so do arrays of different shape or dtype. The order of a dict's keys does not count.

    Raises:
        TypeError: something else; give the lifecycle a ``key`` function of your own.
    """
    digest = hashlib.sha256()
    _add(digest, content)
    return digest.hexdigest()


def _add(digest: Any, content: Any) -> None:
    if isinstance(content, (tuple, list)):
        _add_text(digest, f"{len(content)} items")
        for item in content:
            _add(digest, item)
    elif isinstance(content, dict):
        _add_text(digest, f"{len(content)} keys")
        for key in sorted(content, key=repr):
            _add(digest, key)
            _add(digest, content[key])
    elif isinstance(content, (bytes, bytearray, memoryview)):
        _add_bytes(digest, "bytes", content)
    elif isinstance(content, str):
        _add_bytes(digest, "str", content.encode("utf-8", "surrogatepass"))
    elif content is None or isinstance(content, (bool, int, float)):
        _add_text(digest, f"{type(content).__name__} {content!r}")
    else:
        _add_array(digest, content)


def _add_array(digest: Any, content: Any) -> None:
    if hasattr(content, "untyped_storage"):  # a tensor; as bytes, since NumPy does not know all of its dtypes
        tensor = content.detach().cpu().contiguous()
        _add_text(digest, f"tensor {tensor.dtype} {tuple(tensor.shape)}")
        digest.update(tensor.reshape(-1).view(need_torch("content_key").uint8).numpy())
    elif isinstance(content, (np.ndarray, np.generic)) and not content.dtype.hasobject:
        array = np.ascontiguousarray(content)
        _add_text(digest, f"array {array.dtype.str} {content.shape}")
        digest.update(array.tobytes())
    else:
        raise TypeError(
            f"cannot make a key of {type(content).__name__}: expected text, bytes, numbers, arrays or tensors; "
            "pass key= for anything else"
        )


def _add_text(digest: Any, text: str) -> None:
    _add_bytes(digest, "", text.encode())


def _add_bytes(digest: Any, kind: str, content: bytes | bytearray | memoryview) -> None:
    """With its length, so that no two sequences run into each other."""
    digest.update(f"{kind}:{memoryview(content).nbytes}:".encode())
    digest.update(content)


_logger = logging.getLogger(__name__)

Encoder = TypeVar("Encoder")
Content = TypeVar("Content")

_WORTH_TELLING_S = 0.5
DEFAULT_CACHE_BYTES = 256 * 2**20


class EncoderLifecycle(Generic[Encoder, Content]):
    """Load, encode, release: the encoder exists only while there is something new to encode.

    Embeddings are kept by the hash of their content, so what was encoded before costs no load. They are shared:
    nobody may write to them. They are detached from autograd, and cut out of larger storage, since both would keep the
    encoder's memory. May be used from any thread; one loads at a time.
    """

    def __init__(
        self,
        load: Callable[[], Encoder],
        encode: Callable[[Encoder, Content], Any],
        *,
        cache_bytes: int = DEFAULT_CACHE_BYTES,
        key: Callable[[Content], str] = content_key,
        name: str = "encoder",
        thorough: bool = True,
    ) -> None:
        """
        Args:
            load: makes the encoder, on its device. Nothing else may hold it.
            encode: one content to one embedding: tensors or arrays, alone or inside tuples, lists and dicts.
            cache_bytes: how much of embeddings is kept, the least recently used is forgotten first; 0 keeps none.
            key: a name for content, the same for equal content.
            name: what log lines call it.
            thorough: after each load, look for reference cycles and give freed memory back to the device. That halts
                the whole process for 0.1 s and more; an encoder that is small and has no cycles does not need it.
        """
        self._load = load
        self._encode = encode
        self._key = key
        self._name = name
        self._thorough = thorough
        self._cache = EmbeddingCache(cache_bytes)
        self._lock = threading.Lock()
        self._loads = 0

    @property
    def loads(self) -> int:
        """How often the encoder was loaded."""
        return self._loads

    @property
    def cached_bytes(self) -> int:
        return self._cache.held_bytes

    def encode(self, content: Content) -> Any:
        """The embedding of one content."""
        return self.encode_all([content])[0]

    def encode_all(self, contents: Sequence[Content]) -> list[Any]:
        """The embeddings, in order, with at most one load.

        Raises:
            Exception: what ``load`` or ``encode`` raised; the encoder is released all the same, and what was encoded
                before the failure is kept.
        """
        with self._lock:
            keys = [self._key(content) for content in contents]
            found = {key: self._cache.get(key) for key in keys if key in self._cache}
            missing = {key: content for key, content in zip(keys, contents, strict=True) if key not in found}
            if missing:
                try:
                    self._encode_missing(missing, found)
                except BaseException as error:
                    traceback.clear_frames(error.__traceback__)  # their local variables hold the encoder
                    raise
                finally:
                    if self._thorough:
                        _give_memory_back()
            return [found[key] for key in keys]

    def clear(self) -> None:
        """Forget all embeddings."""
        with self._lock:
            self._cache.clear()

    def _encode_missing(self, missing: dict[str, Content], found: dict[str, Any]) -> None:
        """The encoder is a local variable: it ends with this call."""
        began = time.monotonic()
        encoder = self._load()
        self._loads += 1
        loaded = time.monotonic()
        for key, content in missing.items():
            found[key] = mapped(self._encode(encoder, content), _of_its_own)
            self._cache.put(key, found[key])
        _logger.log(
            logging.INFO if time.monotonic() - began > _WORTH_TELLING_S else logging.DEBUG,
            "%s: loaded in %.2f s, encoded %d in %.2f s",
            self._name,
            loaded - began,
            len(missing),
            time.monotonic() - loaded,
        )


def _of_its_own(leaf: Any) -> Any:
    if isinstance(leaf, np.ndarray):
        return leaf if leaf.base is None else leaf.copy()
    if not hasattr(leaf, "untyped_storage"):
        return leaf
    tensor = leaf.detach()
    return tensor.clone() if tensor.untyped_storage().nbytes() > tensor.nbytes else tensor


def _give_memory_back() -> None:
    """Models are full of cycles; and torch keeps freed memory of the device for itself."""
    gc.collect()
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_available() and torch.cuda.is_initialized():
        torch.cuda.empty_cache()
