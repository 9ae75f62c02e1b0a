"""As much of torch as tensors on a device need, on NumPy. What crosses to the host is noted."""

from __future__ import annotations

import contextlib
import types
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np


class FakeDtype(NamedTuple):
    name: str
    storage: type
    is_floating_point: bool

    def __str__(self) -> str:
        return f"torch.{self.name}"


class FakeDevice(NamedTuple):
    type: str
    index: int = 0


class FakeTensor:
    def __init__(self, torch: FakeTensors, array: np.ndarray, dtype: FakeDtype, device: FakeDevice) -> None:
        self.torch, self.array, self.dtype, self.device = torch, array, dtype, device

    @property
    def shape(self) -> tuple[int, ...]:
        return self.array.shape

    def numel(self) -> int:
        return self.array.size

    def detach(self) -> FakeTensor:
        return self

    def float(self) -> FakeTensor:
        return FakeTensor(self.torch, self.array.astype(np.float32), self.torch.float32, self.device)

    def permute(self, *axes: int) -> FakeTensor:
        return self._with(self.array.transpose(axes))

    def reshape(self, *shape: int) -> FakeTensor:
        return self._with(self.array.reshape(shape))

    def expand(self, *shape: int) -> FakeTensor:
        sizes = [have if want == -1 else want for have, want in zip(self.array.shape, shape, strict=True)]
        return self._with(np.broadcast_to(self.array, sizes))

    def __getitem__(self, key: Any) -> FakeTensor:
        return self._with(self.array[key])

    def copy_(self, other: FakeTensor, non_blocking: bool = False) -> None:
        if self.device != other.device:
            self.torch.to_host_bytes += other.array.nbytes
            assert self.torch.on_stream, "the copy runs on no stream of ours"
        np.copyto(self.array, other.array, casting="unsafe")

    def cpu(self) -> FakeTensor:
        raise AssertionError("pixels were fetched as they are")

    def numpy(self) -> np.ndarray:
        assert self.device.type == "cpu"
        assert self.torch.synchronised, "read before the copy has ended"
        return self.array

    def _with(self, array: np.ndarray) -> FakeTensor:
        return FakeTensor(self.torch, array, self.dtype, self.device)


class FakeTensors(types.ModuleType):
    """Stands for the module ``torch``."""

    uint8 = FakeDtype("uint8", np.uint8, False)
    int64 = FakeDtype("int64", np.int64, False)
    float16 = FakeDtype("float16", np.float16, True)
    float32 = FakeDtype("float32", np.float32, True)
    float64 = FakeDtype("float64", np.float64, True)
    bfloat16 = FakeDtype("bfloat16", np.float32, True)
    Tensor = FakeTensor

    def __init__(self) -> None:
        super().__init__("torch")
        self.to_host_bytes = 0
        self.on_stream = False
        self.waited_for_producer = False
        self.synchronised = False
        self.nn = types.SimpleNamespace(functional=types.SimpleNamespace(pad=self._pad))
        self.cuda = types.SimpleNamespace(
            Stream=lambda device, priority: types.SimpleNamespace(
                wait_stream=self._wait, synchronize=self._synchronise
            ),
            default_stream=lambda device: "producer",
            stream=self._use,
        )

    def on_device(self, array: np.ndarray, dtype: FakeDtype | None = None) -> FakeTensor:
        """A tensor on the device; bfloat16 keeps 8 bits of each number."""
        dtype = dtype or next(kind for kind in (self.uint8, self.float32, self.float64) if kind.storage == array.dtype)
        array = np.ascontiguousarray(array.astype(dtype.storage))
        if dtype is self.bfloat16:
            array = (array.view(np.uint32) + 0x8000 & 0xFFFF0000).astype(np.uint32).view(np.float32)
        return FakeTensor(self, array, dtype, FakeDevice("cuda"))

    def tensor(self, values: Any, dtype: FakeDtype, device: FakeDevice) -> FakeTensor:
        return FakeTensor(self, np.array(values, dtype.storage), dtype, device)

    def empty(
        self,
        shape: tuple[int, ...],
        dtype: FakeDtype,
        device: FakeDevice = FakeDevice("cpu"),  # noqa: B008 - never changes
        pin_memory: bool = False,
    ) -> FakeTensor:
        assert pin_memory == (device.type == "cpu"), "host memory that is not pinned"
        return FakeTensor(self, np.zeros(shape, dtype.storage), dtype, device)

    def fmax(self, one: FakeTensor, other: FakeTensor) -> FakeTensor:
        return self._float32(np.fmax(one.array.astype(np.float32), other.array), one)

    def fmin(self, one: FakeTensor, other: FakeTensor) -> FakeTensor:
        return self._float32(np.fmin(one.array, other.array), one)

    def baddbmm(self, bias: FakeTensor, one: FakeTensor, other: FakeTensor) -> FakeTensor:
        return self._float32(bias.array + one.array @ other.array, other)

    def _pad(self, tensor: FakeTensor, sides: tuple[int, int, int, int], mode: str) -> FakeTensor:
        assert mode == "replicate"
        left, right, top, bottom = sides
        return tensor._with(np.pad(tensor.array, ((0, 0), (0, 0), (top, bottom), (left, right)), mode="edge"))

    def _float32(self, array: np.ndarray, like: FakeTensor) -> FakeTensor:
        return FakeTensor(self, array.astype(np.float32), self.float32, like.device)

    def _wait(self, producer: str) -> None:
        self.waited_for_producer = producer == "producer"

    def _synchronise(self) -> None:
        self.synchronised = True

    @contextlib.contextmanager
    def _use(self, stream: Any) -> Iterator[None]:
        assert self.waited_for_producer, "read what may be in the making"
        self.on_stream, self.synchronised = True, False
        try:
            yield
        finally:
            self.on_stream = False
