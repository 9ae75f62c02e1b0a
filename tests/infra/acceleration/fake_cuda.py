"""As much of torch as graphs, streams and pinned memory need: tensors on NumPy, kernels that a capture records.

A kernel that is launched while a capture is under way does not run: it runs whenever that graph is replayed.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...core.fake_torch import FakeEvent, FakeStream, FakeTorch


@dataclass(frozen=True)
class Device:
    type: str

    def __str__(self) -> str:
        return f"{self.type}:0"


CUDA, CPU = Device("cuda"), Device("cpu")


class CaptureError(RuntimeError):
    """The driver refuses something while a capture is under way."""


class Tensor:
    def __init__(self, torch: FakeCuda, array: np.ndarray, device: Device = CUDA, *, pinned: bool = False) -> None:
        self.torch, self.array, self.device, self.pinned = torch, array, device, pinned
        self.requires_grad = False
        self.strides: tuple[int, ...] | None = None
        self.used_on: list[FakeStream] = []
        self._version = 0

    shape = property(lambda self: self.array.shape)
    dtype = property(lambda self: self.array.dtype)
    is_cuda = property(lambda self: self.device.type == "cuda")

    def stride(self) -> tuple[int, ...]:
        return self.strides or tuple(step // self.array.itemsize for step in self.array.strides)

    def detach(self) -> Tensor:
        return self

    def record_stream(self, stream: FakeStream) -> None:
        self.used_on.append(stream)

    def copy_(self, other: Tensor, non_blocking: bool = False) -> None:
        assert 0 not in self.stride(), "more than one element of the written tensor is at one address"
        self._version += 1
        self.torch.launch(lambda: np.copyto(self.array, other.array))

    def add_(self, value: float) -> None:
        self._version += 1
        self.torch.launch(lambda: np.add(self.array, value, out=self.array))

    def clone(self) -> Tensor:
        return self._made(lambda: self.array)

    def __add__(self, other: Tensor | float) -> Tensor:
        return self._made(lambda: self.array + (other.array if isinstance(other, Tensor) else other))

    def __mul__(self, factor: float) -> Tensor:
        return self._made(lambda: self.array * factor)

    def item(self) -> float:
        if self.torch.capturing is not None:
            self.torch.capturing.invalidated = True
            raise CaptureError("operation not permitted when stream is capturing")
        return float(self.array.sum())

    def _made(self, value: Callable[[], np.ndarray]) -> Tensor:
        made = Tensor(self.torch, np.empty_like(value()), self.device)
        self.torch.launch(lambda: np.copyto(made.array, value()))
        return made


class Graph:
    def __init__(self, torch: FakeCuda) -> None:
        self.torch = torch
        self.kernels: list[Callable[[], None]] = []
        self.invalidated = False
        torch.graphs.append(self)

    def replay(self) -> None:
        for kernel in self.kernels:
            self.torch.launch(kernel)


class FakeCuda(FakeTorch):
    Tensor = Tensor
    dtype = np.dtype
    device = Device
    uint8 = np.dtype(np.uint8)

    def __init__(self, *, available: bool = True) -> None:
        super().__init__(available=available)
        self.default_stream = FakeStream(self, CUDA)
        self.streams.clear()
        self.graphs: list[Graph] = []
        self.capturing: Graph | None = None
        self.stuck = False  # the random generator after a capture that could not be ended
        self.launched_on: list[FakeStream] = []
        self.inference = False
        self.cuda.current_stream = lambda device=None: self.current or self.default_stream
        self.cuda.set_stream = lambda stream: setattr(
            self._local, "current", None if stream is self.default_stream else stream
        )
        self.cuda.Event = lambda: Event(self)
        self.cuda.CUDAGraph = lambda: Graph(self)
        self.cuda.graph = self._capture
        self.cuda.device = contextlib.nullcontext
        self.cuda.synchronize = lambda device=None: None

    def launch(self, kernel: Callable[[], None]) -> None:
        if self.capturing is not None:
            self.capturing.kernels.append(kernel)
            return
        self.launched_on.append(self.cuda.current_stream())
        kernel()

    def tensor(self, *values: float, device: Device = CUDA) -> Tensor:
        return Tensor(self, np.array(values, np.float32), device)

    def empty(self, shape: Any, dtype: Any, device: Device = CPU, pin_memory: bool = False) -> Tensor:
        return Tensor(self, np.zeros(shape, dtype), device, pinned=pin_memory)

    def zeros(self, shape: Any, device: Device) -> Tensor:
        return self.empty(shape, np.float32, device)

    def empty_strided(self, shape: Any, stride: Any, dtype: Any, device: Device) -> Tensor:
        made = self.empty(shape, dtype, device)
        made.strides = tuple(stride)
        return made

    def random(self) -> float:
        assert not self.stuck, "Offset increment outside graph capture encountered unexpectedly."
        return 0.5

    def is_grad_enabled(self) -> bool:
        return not self.inference

    def is_inference_mode_enabled(self) -> bool:
        return self.inference

    def is_autocast_enabled(self, device: str) -> bool:
        return False

    @contextlib.contextmanager
    def inference_mode(self, mode: bool = True) -> Iterator[None]:
        outer, self.inference = self.inference, mode
        try:
            yield
        finally:
            self.inference = outer

    @contextlib.contextmanager
    def _capture(self, graph: Graph, stream: FakeStream, capture_error_mode: str) -> Iterator[None]:
        """As torch does it: whoever cannot be ended leaves the stream and the generator as they are in between."""
        assert capture_error_mode == "thread_local", "other threads go on meanwhile"
        outer = self.cuda.current_stream()
        self.capturing = graph
        self.cuda.set_stream(stream)
        try:
            yield
        finally:
            self.capturing = None
            self.stuck = graph.invalidated
            if graph.invalidated:
                raise CaptureError("operation failed due to a previous error during capture")
            self.cuda.set_stream(outer)


class Event(FakeEvent):
    def __init__(self, torch: FakeCuda) -> None:
        super().__init__(torch)
        self.synchronized = 0

    def synchronize(self) -> None:
        super().synchronize()
        self.synchronized += 1
