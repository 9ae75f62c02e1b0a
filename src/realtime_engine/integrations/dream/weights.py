"""Weights in a file: written whole, read with errors that say what is wrong with it."""

from __future__ import annotations

import json
import stat
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import torch
from torch import Tensor, nn

from ...core.errors import RealtimeEngineError, describe
from ...infra.atomic_file import atomic_file
from ...infra.extras import require
from .network import DreamNetwork, DreamSizes, DreamWorld, Encoder

SHIPPED = Path(__file__).parent / "dream.safetensors"
"""The weights that come with the package."""

_FORMAT = "realtime-engine dream 1"
_FLOATS = ("F16", "BF16", "F32", "F64")  # as safetensors names them
_TRAIN = "train others with: python -m realtime_engine.integrations.dream.train"

Part = TypeVar("Part", bound=nn.Module)


class _Kind(NamedTuple):
    """What a tensor in a file is, but for its numbers."""

    shape: tuple[int, ...]
    dtype: str


class WeightsError(RealtimeEngineError, RuntimeError):
    """A weight file is missing, damaged or made for something else, or does not fit the device."""


class Weights:
    """A weight file. What it is made of is checked at once, numbers are read with the part that needs them.

    Args:
        path: of a file that :func:`save` has written.

    Raises:
        WeightsError: saying which file, what is wrong with it, and what to do.
        MissingDependencyError: without safetensors.
    """

    def __init__(self, path: Path = SHIPPED) -> None:
        self.path = path
        if (kind := _odd_kind(path)) is not None:
            raise WeightsError(f"{str(path)!r} is {kind}, expected a file; {_TRAIN}")
        self._open = require("safetensors", "torch", "read weights").safe_open
        self.metadata: Mapping[str, str]
        self.metadata, kinds = self._read(_header)
        self.sizes = self._sizes(self.metadata)
        self._check_kinds(self._shapes(), kinds)
        self._of_encoder: dict[str, Tensor] | None = None

    def world(self, device: torch.device) -> DreamWorld:
        """The part that every step needs, float32, for inference only. Raises :class:`WeightsError`."""
        return self._part(lambda: DreamWorld(self.sizes), self._tensors("world."), device)

    def encoder(self, device: torch.device) -> Encoder:
        """The encoder, float32, for inference only. Raises :class:`WeightsError`.

        It is made again and again, so its numbers are kept on the host: whatever becomes of the file meanwhile.
        """
        if self._of_encoder is None:
            self._of_encoder = self._tensors("encoder.")
        sizes = self.sizes
        return self._part(lambda: Encoder(sizes.latent, sizes.code, sizes.encoder_width), self._of_encoder, device)

    def _tensors(self, prefix: str) -> dict[str, Tensor]:
        """Those of one part, by their names inside of it; cloned, since safetensors' own lie in the file itself, and
        whoever touches them after it was cut off is killed."""
        tensors: dict[str, Tensor] = self._read(
            lambda file: {name: file.get_tensor(name).clone() for name in file.keys() if name.startswith(prefix)}
        )
        self._check_numbers(tensors)
        return {name.removeprefix(prefix): tensor for name, tensor in tensors.items()}

    def _part(self, make: Callable[[], Part], tensors: Mapping[str, Tensor], device: torch.device) -> Part:
        part = make()
        part.load_state_dict({name: tensor.float() for name, tensor in tensors.items()})
        part.eval().requires_grad_(False)
        try:
            return part.to(device)
        except (RuntimeError, AssertionError) as error:  # torch raises the latter where it was built without CUDA
            raise WeightsError(
                f"the weights cannot be put on the device {str(device)!r} ({describe(error)}): choose another device, "
                "such as 'cpu', or free its memory"
            ) from error

    def _read(self, use: Any) -> Any:
        try:
            with self._open(self.path, framework="pt") as file:
                return use(file)
        except FileNotFoundError as error:
            raise WeightsError(f"there is no weight file {str(self.path)!r}: {_TRAIN}") from error
        except OSError as error:
            raise WeightsError(f"{str(self.path)!r} cannot be read: {error}") from error
        except Exception as error:  # safetensors' own
            raise WeightsError(
                f"{str(self.path)!r} is no safetensors file, or damaged ({describe(error)}): {_TRAIN}"
            ) from error

    def _sizes(self, metadata: Mapping[str, str]) -> DreamSizes:
        try:
            if metadata.get("format") != _FORMAT:
                raise ValueError(f"its format is {metadata.get('format')!r}, expected {_FORMAT!r}")
            if "sizes" not in metadata:
                raise ValueError("its metadata has no 'sizes'")
            return DreamSizes(**json.loads(metadata["sizes"]))
        except (ValueError, TypeError, RecursionError) as error:
            raise WeightsError(f"{str(self.path)!r} holds no dream: {error}; {_TRAIN}") from error

    def _shapes(self) -> dict[str, tuple[int, ...]]:
        """What a network of these sizes is made of, found out without memory for it."""
        try:
            with torch.device("meta"):
                return {name: tuple(tensor.shape) for name, tensor in DreamNetwork(self.sizes).state_dict().items()}
        except (RuntimeError, TypeError, ValueError, OverflowError) as error:  # what torch makes of absurd numbers
            raise WeightsError(
                f"{str(self.path)!r} holds no dream: no network has its sizes, {self.sizes}; {_TRAIN}"
            ) from error

    def _check_kinds(self, wanted: Mapping[str, tuple[int, ...]], found: Mapping[str, _Kind]) -> None:
        if missing := sorted(wanted.keys() - found.keys()):
            raise WeightsError(f"{str(self.path)!r} lacks {', '.join(missing[:3])}{_more(missing)}; {_TRAIN}")
        if extra := sorted(found.keys() - wanted.keys()):
            raise WeightsError(f"{str(self.path)!r} has {', '.join(extra[:3])}{_more(extra)} too many; {_TRAIN}")
        for name, (shape, dtype) in found.items():
            if shape != wanted[name]:
                raise WeightsError(
                    f"{name} in {str(self.path)!r} has the shape {shape}, expected {wanted[name]}; {_TRAIN}"
                )
            if dtype not in _FLOATS:
                raise WeightsError(
                    f"{name} in {str(self.path)!r} is of the type {dtype}, expected {' or '.join(_FLOATS)}; {_TRAIN}"
                )

    def _check_numbers(self, tensors: Mapping[str, Tensor]) -> None:
        for name, tensor in tensors.items():
            if not torch.isfinite(tensor).all():
                raise WeightsError(f"{name} in {str(self.path)!r} holds numbers that are not finite; {_TRAIN}")


def save(path: Path, network: DreamNetwork, notes: Mapping[str, str], dtype: torch.dtype = torch.float16) -> None:
    """Write the network's weights, replacing what is there only when all is written.

    Args:
        notes: goes along, for people; see :attr:`Weights.metadata`.
        dtype: of the numbers in the file.
    """
    pack = require("safetensors.torch", "torch", "write weights").save
    metadata = {**notes, "format": _FORMAT, "sizes": json.dumps(asdict(network.sizes))}
    tensors = {name: tensor.detach().cpu().to(dtype).contiguous() for name, tensor in network.state_dict().items()}
    with atomic_file(path, overwrite=True) as temporary:
        temporary.write_bytes(pack(tensors, metadata))


def _odd_kind(path: Path) -> str | None:
    """What lies there if it is no file: to open a pipe would wait for somebody who writes into it."""
    try:
        mode = path.stat().st_mode
    except (OSError, ValueError):  # whoever opens it says what is wrong
        return None
    if stat.S_ISREG(mode):
        return None
    return "a folder" if stat.S_ISDIR(mode) else "a pipe, socket or device"


def _header(file: Any) -> tuple[dict[str, str], dict[str, _Kind]]:
    """Metadata, and name -> kind of every tensor, without their numbers."""
    slices = {name: file.get_slice(name) for name in file.keys()}
    kinds = {name: _Kind(tuple(part.get_shape()), part.get_dtype()) for name, part in slices.items()}
    return file.metadata() or {}, kinds


def _more(names: list[str]) -> str:
    return f" and {len(names) - 3} more" if len(names) > 3 else ""
