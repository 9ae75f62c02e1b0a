"""A name for content, by its value."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np

from .lazy_torch import need_torch


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
