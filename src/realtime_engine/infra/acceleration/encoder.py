"""Encoders that occupy memory only while they encode (text, first images), and a cache of their embeddings."""

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
    """An LRU cache of at most ``max_bytes`` of tensors and arrays. Not thread-safe.

    Raises:
        ValueError: ``max_bytes`` is negative.
    """

    def __init__(self, max_bytes: int) -> None:
        if max_bytes < 0:
            raise ValueError(f"max_bytes must be at least 0, not {max_bytes}")
        self._max_bytes = max_bytes
        self._entries: OrderedDict[str, tuple[Any, int]] = OrderedDict()
        self._held_bytes = 0

    @property
    def held_bytes(self) -> int:
        """Total size of the cached embeddings."""
        return self._held_bytes

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, key: str) -> bool:
        return key in self._entries

    def get(self, key: str) -> Any:
        """Return an embedding and mark it as the most recently used.

        Raises:
            KeyError: it is not cached.
        """
        self._entries.move_to_end(key)
        return self._entries[key][0]

    def put(self, key: str, embedding: Any) -> bool:
        """Add an embedding and evict the least recently used ones. Returns false if it exceeds ``max_bytes``."""
        self.evict(key)
        size = bytes_of(embedding)
        if size > self._max_bytes:
            return False
        while self._held_bytes + size > self._max_bytes:
            self.evict(next(iter(self._entries)))
        self._entries[key] = (embedding, size)
        self._held_bytes += size
        return True

    def evict(self, key: str) -> None:
        """Remove an embedding, if it is cached."""
        _, size = self._entries.pop(key, (None, 0))
        self._held_bytes -= size

    def clear(self) -> None:
        """Remove all embeddings."""
        self._entries.clear()
        self._held_bytes = 0


def bytes_of(embedding: Any) -> int:
    """Total size of the tensors and arrays in ``embedding``."""
    return sum(int(getattr(leaf, "nbytes", 0)) for leaf in leaves(embedding))


def content_key(content: Any) -> str:
    """SHA-256 of text, bytes, numbers, arrays and tensors, alone or inside tuples, lists and dicts.

    Equal content has the same key in every process. ``"1"``, ``1``, ``1.0`` and ``b"1"`` have different keys, and so
    do arrays of different shape or dtype. The order of dict keys is ignored.

    Raises:
        TypeError: the content has another type; pass a ``key`` function to the lifecycle.
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
    if hasattr(content, "untyped_storage"):  # a tensor; viewed as bytes, as NumPy lacks some dtypes
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
    """Hash the length as well, so that different sequences cannot have the same bytes."""
    digest.update(f"{kind}:{memoryview(content).nbytes}:".encode())
    digest.update(content)


_logger = logging.getLogger(__name__)

Encoder = TypeVar("Encoder")
Content = TypeVar("Content")

_LOG_INFO_ABOVE_S = 0.5
DEFAULT_CACHE_BYTES = 256 * 2**20


class EncoderLifecycle(Generic[Encoder, Content]):
    """Loads an encoder, encodes new content, and releases the encoder.

    Embeddings are cached by the hash of their content, so known content needs no load. They are shared and must not be
    modified. They are detached from autograd and copied out of larger storage, as both would keep the encoder's memory
    alive. Thread-safe; loads are serialized.

    Args:
        load: creates the encoder on its device. No other reference to it may exist.
        encode: maps one content to one embedding: tensors or arrays, alone or inside tuples, lists and dicts.
        cache_bytes: maximum size of the cached embeddings; the least recently used is evicted first. 0 disables it.
        key: maps equal content to the same name.
        name: name of the encoder in log messages.
        thorough: after each load, collect reference cycles and return freed memory to the device. That stops the whole
            process for 0.1 s and more; small encoders without cycles do not need it.
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
        """Number of loads so far."""
        return self._loads

    @property
    def cached_bytes(self) -> int:
        """Total size of the cached embeddings."""
        return self._cache.held_bytes

    def encode(self, content: Content) -> Any:
        """Return the embedding of one content."""
        return self.encode_all([content])[0]

    def encode_all(self, contents: Sequence[Content]) -> list[Any]:
        """Return the embeddings in order, with at most one load.

        Raises:
            Exception: ``load`` or ``encode`` failed. The encoder is released, and embeddings completed before the
                failure are cached.
        """
        with self._lock:
            keys = [self._key(content) for content in contents]
            found = {key: self._cache.get(key) for key in keys if key in self._cache}
            missing = {key: content for key, content in zip(keys, contents, strict=True) if key not in found}
            if missing:
                try:
                    self._encode_missing(missing, found)
                except BaseException as error:
                    traceback.clear_frames(error.__traceback__)  # local variables of the frames hold the encoder
                    raise
                finally:
                    if self._thorough:
                        _return_memory()
            return [found[key] for key in keys]

    def clear(self) -> None:
        """Remove all cached embeddings."""
        with self._lock:
            self._cache.clear()

    def _encode_missing(self, missing: dict[str, Content], found: dict[str, Any]) -> None:
        """The encoder is a local variable, so it is released at the end of this call."""
        began = time.monotonic()
        encoder = self._load()
        self._loads += 1
        loaded = time.monotonic()
        for key, content in missing.items():
            found[key] = mapped(self._encode(encoder, content), _compact)
            self._cache.put(key, found[key])
        _logger.log(
            logging.INFO if time.monotonic() - began > _LOG_INFO_ABOVE_S else logging.DEBUG,
            "%s: loaded in %.2f s, encoded %d in %.2f s",
            self._name,
            loaded - began,
            len(missing),
            time.monotonic() - loaded,
        )


def _compact(leaf: Any) -> Any:
    """A leaf that keeps no storage alive but its own."""
    if isinstance(leaf, np.ndarray):
        return leaf if leaf.base is None else leaf.copy()
    if not hasattr(leaf, "untyped_storage"):
        return leaf
    tensor = leaf.detach()
    return tensor.clone() if tensor.untyped_storage().nbytes() > tensor.nbytes else tensor


def _return_memory() -> None:
    """Collect reference cycles, which models contain, and empty torch's cache of device memory."""
    gc.collect()
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_available() and torch.cuda.is_initialized():
        torch.cuda.empty_cache()
