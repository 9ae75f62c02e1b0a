"""Weights in a file: written whole, read with errors that say what is wrong with it."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from ...infra.atomic_file import atomic_file
from ...infra.extras import require
from .network import DreamNetwork, DreamSizes, DreamWorld
from .pictures import Encoder

SHIPPED = Path(__file__).parent / "dream.safetensors"
"""The weights that come with the package."""

_FORMAT = "realtime-engine dream 1"
_TRAIN = "train others with: python -m realtime_engine.integrations.dream.train"

Part = TypeVar("Part", bound=nn.Module)


class WeightsError(RuntimeError):
    """A weight file is missing, damaged or made for something else, or does not fit the device."""


class Weights:
    """A weight file. What it is made of is checked at once, the tensors are read with the part that needs them.

    Args:
        path: of a file that :func:`save` has written.

    Raises:
        WeightsError: saying which file, what is wrong with it, and what to do.
        MissingDependencyError: without safetensors.
    """

    def __init__(self, path: Path = SHIPPED) -> None:
        self.path = path
        self._open = require("safetensors", "torch", "read weights").safe_open
        header = self._read(lambda file: (file.metadata() or {}, file.keys()))
        self.metadata: Mapping[str, str] = header[0]
        self.sizes = self._sizes(self.metadata)
        with torch.device("meta"):
            wanted = {name: tensor.shape for name, tensor in DreamNetwork(self.sizes).state_dict().items()}
        self._check_names(set(wanted), set(header[1]))
        self._shapes = wanted

    def world(self, device: torch.device) -> DreamWorld:
        """The part that every step needs, float32, for inference only. Raises :class:`WeightsError`."""
        return self._part(lambda: DreamWorld(self.sizes), "world.", device)

    def encoder(self, device: torch.device) -> Encoder:
        """The encoder, float32, for inference only. Raises :class:`WeightsError`."""
        sizes = self.sizes
        return self._part(lambda: Encoder(sizes.latent, sizes.code, sizes.encoder_width), "encoder.", device)

    def _part(self, make: Callable[[], Part], prefix: str, device: torch.device) -> Part:
        tensors = self._read(
            lambda file: {name: file.get_tensor(name) for name in file.keys() if name.startswith(prefix)}
        )
        self._check_tensors(tensors)
        part = make()
        part.load_state_dict({name.removeprefix(prefix): tensor.float() for name, tensor in tensors.items()})
        try:
            return part.to(device).eval().requires_grad_(False)
        except (RuntimeError, AssertionError) as error:  # torch raises the latter where it was built without CUDA
            raise WeightsError(
                f"the weights cannot be put on {device} ({error}): choose another device, or free its memory"
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
            raise WeightsError(f"{str(self.path)!r} is no safetensors file, or damaged ({error}): {_TRAIN}") from error

    def _sizes(self, metadata: Mapping[str, str]) -> DreamSizes:
        try:
            if metadata.get("format") != _FORMAT:
                raise ValueError(f"its format is {metadata.get('format')!r}, expected {_FORMAT!r}")
            return DreamSizes(**json.loads(metadata["sizes"]))
        except (ValueError, KeyError, TypeError) as error:
            raise WeightsError(f"{str(self.path)!r} holds no dream: {error}; {_TRAIN}") from error

    def _check_names(self, wanted: set[str], found: set[str]) -> None:
        if missing := sorted(wanted - found):
            raise WeightsError(f"{str(self.path)!r} lacks {', '.join(missing[:3])}{_more(missing)}; {_TRAIN}")
        if extra := sorted(found - wanted):
            raise WeightsError(f"{str(self.path)!r} has {', '.join(extra[:3])}{_more(extra)} too many; {_TRAIN}")

    def _check_tensors(self, tensors: Mapping[str, Tensor]) -> None:
        for name, tensor in tensors.items():
            wanted = tuple(self._shapes[name])
            if tuple(tensor.shape) != wanted:
                raise WeightsError(
                    f"{name} in {str(self.path)!r} has the shape {tuple(tensor.shape)}, expected {wanted}; {_TRAIN}"
                )
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


def _more(names: list[str]) -> str:
    return f" and {len(names) - 3} more" if len(names) > 3 else ""
