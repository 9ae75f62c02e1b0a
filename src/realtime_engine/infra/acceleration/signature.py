"""What must be the same for a captured graph to be valid for a call."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

_BY_VALUE = (bool, int, str, bytes, complex, type(None))


class _Identity:
    """Equal to itself only; keeps its object alive, so that no other one can get its address."""

    __slots__ = ("_object",)

    def __init__(self, value: object) -> None:
        self._object = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Identity) and self._object is other._object

    def __hash__(self) -> int:
        return id(self._object)


def signature_of(torch: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Hashable:
    """Structure, tensors' shapes, dtypes, strides and devices, other arguments, and torch's modes.

    Numbers and text count by value and type, dtypes and devices by value, every other object by identity: whatever is
    changed inside such an object goes unnoticed.
    """
    modes = (
        torch.is_grad_enabled(),
        torch.is_inference_mode_enabled(),
        torch.is_autocast_enabled("cuda") and torch.get_autocast_dtype("cuda"),
    )
    return modes, _part(torch, args), _part(torch, kwargs)


def _part(torch: Any, value: Any) -> Hashable:
    if isinstance(value, torch.Tensor):
        return "tensor", tuple(value.shape), value.dtype, tuple(value.stride()), value.device, value.requires_grad
    if isinstance(value, (tuple, list)):
        return type(value), tuple(_part(torch, item) for item in value)
    if isinstance(value, dict):
        return dict, tuple((key, _part(torch, item)) for key, item in value.items())
    if isinstance(value, float):
        return float, value.hex()  # tells -0.0 from 0.0, and a nan equals itself
    if type(value) in _BY_VALUE or isinstance(value, (torch.dtype, torch.device)):
        return type(value), value
    return _Identity(value)
