"""Reads, validates and atomically writes the weight file of the dream."""

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
"""Path of the weights that are part of the package."""

_FORMAT = "realtime-engine dream 1"
_FLOATS = ("F16", "BF16", "F32", "F64")  # dtype names of safetensors
_TRAIN = "train new ones with: python -m realtime_engine.integrations.dream.train"

Part = TypeVar("Part", bound=nn.Module)


class _Kind(NamedTuple):
    """Shape and dtype of a tensor in a file."""

    shape: tuple[int, ...]
    dtype: str


class WeightsError(RealtimeEngineError, RuntimeError):
    """A weight file is missing, damaged, of another format, or does not fit on the device."""


class Weights:
    """A weight file. Names, shapes and dtypes are checked on construction; values are read with each part.

    Args:
        path: a file written by :func:`save`.

    Attributes:
        path: path of the file.
        metadata: metadata of the file.
        sizes: sizes of the network.

    Raises:
        WeightsError: the file is unusable; the message names it, the cause and the remedy.
        MissingDependencyError: safetensors is not installed.
    """

    def __init__(self, path: Path = SHIPPED) -> None:
        self.path = path
        if (kind := _other_kind(path)) is not None:
            raise WeightsError(f"{str(path)!r} is {kind}, expected a file; {_TRAIN}")
        self._open = require("safetensors", "torch", "read weights").safe_open
        self.metadata: Mapping[str, str]
        self.metadata, kinds = self._read(_header)
        self.sizes = self._sizes(self.metadata)
        self._check_kinds(self._shapes(), kinds)
        self._of_encoder: dict[str, Tensor] | None = None

    def world(self, device: torch.device) -> DreamWorld:
        """Load the world model in float32, for inference only.

        Raises:
            WeightsError: the file or the device is unusable.
        """
        return self._part(lambda: DreamWorld(self.sizes), self._tensors("world."), device)

    def encoder(self, device: torch.device) -> Encoder:
        """Load the encoder in float32, for inference only.

        The tensors stay cached on the host, because the encoder is reloaded repeatedly and the file may change.

        Raises:
            WeightsError: the file or the device is unusable.
        """
        if self._of_encoder is None:
            self._of_encoder = self._tensors("encoder.")
        sizes = self.sizes
        return self._part(lambda: Encoder(sizes.latent, sizes.code, sizes.encoder_width), self._of_encoder, device)

    def _tensors(self, prefix: str) -> dict[str, Tensor]:
        """Return the tensors of one part by their names within it.

        The tensors are cloned: safetensors maps the file, and access to a file truncated later raises SIGBUS.
        """
        tensors: dict[str, Tensor] = self._read(
            lambda file: {name: file.get_tensor(name).clone() for name in _names(file) if name.startswith(prefix)}
        )
        self._check_numbers(tensors)
        return {name.removeprefix(prefix): tensor for name, tensor in tensors.items()}

    def _part(self, make: Callable[[], Part], tensors: Mapping[str, Tensor], device: torch.device) -> Part:
        part = make()
        part.load_state_dict({name: tensor.float() for name, tensor in tensors.items()})
        part.eval().requires_grad_(False)
        try:
            return part.to(device)
        except (RuntimeError, AssertionError) as error:  # torch built without CUDA raises AssertionError
            raise WeightsError(
                f"the weights cannot be moved to the device {str(device)!r} ({describe(error)}): choose another "
                "device, such as 'cpu', or free its memory"
            ) from error

    def _read(self, use: Any) -> Any:
        try:
            with self._open(self.path, framework="pt") as file:
                return use(file)
        except FileNotFoundError as error:
            raise WeightsError(f"weight file {str(self.path)!r} does not exist: {_TRAIN}") from error
        except OSError as error:
            raise WeightsError(f"{str(self.path)!r} cannot be read: {error}") from error
        except Exception as error:  # safetensors has its own exception type
            raise WeightsError(
                f"{str(self.path)!r} is not a safetensors file or is damaged ({describe(error)}): {_TRAIN}"
            ) from error

    def _sizes(self, metadata: Mapping[str, str]) -> DreamSizes:
        try:
            if metadata.get("format") != _FORMAT:
                raise ValueError(f"its format is {metadata.get('format')!r}, expected {_FORMAT!r}")
            if "sizes" not in metadata:
                raise ValueError("its metadata has no 'sizes'")
            return DreamSizes(**json.loads(metadata["sizes"]))
        except (ValueError, TypeError, RecursionError) as error:
            raise WeightsError(f"{str(self.path)!r} is not a dream weight file: {error}; {_TRAIN}") from error

    def _shapes(self) -> dict[str, tuple[int, ...]]:
        """Return the tensor shapes of a network of these sizes, computed on the meta device."""
        try:
            with torch.device("meta"):
                return {name: tuple(tensor.shape) for name, tensor in DreamNetwork(self.sizes).state_dict().items()}
        except (
            RuntimeError,
            TypeError,
            ValueError,
            OverflowError,
        ) as error:  # torch rejects sizes that are out of range
            raise WeightsError(
                f"{str(self.path)!r} is not a dream weight file: its sizes are not valid, {self.sizes}; {_TRAIN}"
            ) from error

    def _check_kinds(self, wanted: Mapping[str, tuple[int, ...]], found: Mapping[str, _Kind]) -> None:
        if missing := sorted(wanted.keys() - found.keys()):
            raise WeightsError(f"{str(self.path)!r} lacks {', '.join(missing[:3])}{_more(missing)}; {_TRAIN}")
        if extra := sorted(found.keys() - wanted.keys()):
            raise WeightsError(
                f"{str(self.path)!r} has unexpected tensors {', '.join(extra[:3])}{_more(extra)}; {_TRAIN}"
            )
        for name, (shape, dtype) in found.items():
            if shape != wanted[name]:
                raise WeightsError(
                    f"{name} in {str(self.path)!r} has the shape {shape}, expected {wanted[name]}; {_TRAIN}"
                )
            if dtype not in _FLOATS:
                raise WeightsError(
                    f"{name} in {str(self.path)!r} has the dtype {dtype}, expected {' or '.join(_FLOATS)}; {_TRAIN}"
                )

    def _check_numbers(self, tensors: Mapping[str, Tensor]) -> None:
        for name, tensor in tensors.items():
            if not torch.isfinite(tensor).all():
                raise WeightsError(f"{name} in {str(self.path)!r} has values that are not finite; {_TRAIN}")


def save(path: Path, network: DreamNetwork, notes: Mapping[str, str], dtype: torch.dtype = torch.float16) -> None:
    """Write the weights of a network, atomically replacing an existing file.

    Args:
        path: path of the file.
        network: the network.
        notes: additional metadata, see :attr:`Weights.metadata`.
        dtype: dtype of the tensors in the file.

    Raises:
        MissingDependencyError: safetensors is not installed.
        OSError: the file cannot be written.
    """
    pack = require("safetensors.torch", "torch", "write weights").save
    metadata = {**notes, "format": _FORMAT, "sizes": json.dumps(asdict(network.sizes))}
    tensors = {name: tensor.detach().cpu().to(dtype).contiguous() for name, tensor in network.state_dict().items()}
    with atomic_file(path, overwrite=True) as temporary:
        temporary.write_bytes(pack(tensors, metadata))


def _other_kind(path: Path) -> str | None:
    """Return what the path is if not a regular file; opening a pipe would block until it has a writer."""
    try:
        mode = path.stat().st_mode
    except (OSError, ValueError):  # reported when the file is opened
        return None
    if stat.S_ISREG(mode):
        return None
    return "a folder" if stat.S_ISDIR(mode) else "a pipe, socket or device"


def _header(file: Any) -> tuple[dict[str, str], dict[str, _Kind]]:
    """Return the metadata and the kind of every tensor by name, without reading values."""
    slices = {name: file.get_slice(name) for name in _names(file)}
    kinds = {name: _Kind(tuple(part.get_shape()), part.get_dtype()) for name, part in slices.items()}
    return file.metadata() or {}, kinds


def _names(file: Any) -> list[str]:
    """Return the tensor names of an open safetensors file, which is not iterable itself."""
    names: list[str] = file.keys()
    return names


def _more(names: list[str]) -> str:
    return f" and {len(names) - 3} more" if len(names) > 3 else ""
