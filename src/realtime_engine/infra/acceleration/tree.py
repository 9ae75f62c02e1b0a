"""Tensors inside tuples, lists and dicts. Any other object is a leaf, a dataclass too."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any


def leaves(value: Any) -> Iterator[Any]:
    """All leaves, in the order in which :func:`mapped` meets them."""
    if isinstance(value, (tuple, list)):
        for item in value:
            yield from leaves(item)
    elif isinstance(value, dict):
        for item in value.values():
            yield from leaves(item)
    else:
        yield value


def mapped(value: Any, change: Callable[[Any], Any]) -> Any:
    """The same structure with every leaf changed; containers are new, and named tuples stay what they are."""
    if isinstance(value, tuple):
        items = (mapped(item, change) for item in value)
        return type(value)(*items) if hasattr(value, "_fields") else tuple(items)
    if isinstance(value, list):
        return [mapped(item, change) for item in value]
    if isinstance(value, dict):
        return {key: mapped(item, change) for key, item in value.items()}
    return change(value)


def tensors(torch: Any, value: Any) -> list[Any]:
    """The leaves that are tensors."""
    return [leaf for leaf in leaves(value) if isinstance(leaf, torch.Tensor)]
