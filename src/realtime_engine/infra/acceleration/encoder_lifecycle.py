"""An encoder that is needed now and then (a prompt, a first image) and would else take memory all the time."""

from __future__ import annotations

import gc
import logging
import sys
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

import numpy as np

from .content_key import content_key
from .embedding_cache import EmbeddingCache
from .tree import mapped

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
