"""Objects on their way between two processes: their arrays through shared memory, the rest as bytes."""

from __future__ import annotations

import io
import pickle
from multiprocessing.shared_memory import SharedMemory
from typing import Any

import numpy as np

__all__ = ["SharedArrays"]

_SMALLEST_SHARED = 16 * 1024  # bytes; what is smaller costs less in the message itself
_ALIGNMENT = 64

Span = tuple[int, int]


class SharedArrays:
    """Packs objects into a message and a piece of shared memory, one object at a time, and unpacks them.

    Contiguous arrays of 16 KiB or more go through the memory as long as it has room; the rest travels in the message.
    What is unpacked is a copy: it stays valid when the memory is used again.
    """

    def __init__(self, memory: SharedMemory) -> None:
        assert memory.buf is not None, "the memory is closed"
        self._memory: memoryview = memory.buf

    def pack(self, value: object) -> bytes:
        """The message for ``value``; its large arrays are in the memory until the next call."""
        buffers = _Packing(self._memory)
        stream = io.BytesIO()
        _Pickler(stream, protocol=5, buffer_callback=buffers.take).dump(value)
        return pickle.dumps((stream.getbuffer().tobytes(), buffers.spans), protocol=5)

    def unpack(self, message: bytes) -> Any:
        """The value; its arrays are writable if the packed ones were."""
        payload, spans = pickle.loads(message)
        return pickle.loads(payload, buffers=[bytearray(self._memory[start:end]) for start, end in spans])


class _Packing:
    """Where the buffers of one value go. Returns true for those that stay in the message, as pickle wants it."""

    def __init__(self, memory: memoryview) -> None:
        self._memory = memory
        self._next = 0
        self.spans: list[Span] = []

    def take(self, buffer: pickle.PickleBuffer) -> bool:
        with buffer.raw() as raw:
            end = self._next + raw.nbytes
            if raw.nbytes < _SMALLEST_SHARED or end > len(self._memory):
                return True
            self._memory[self._next : end] = raw
            self.spans.append((self._next, end))
            self._next = -(-end // _ALIGNMENT) * _ALIGNMENT
            return False


class _Pickler(pickle.Pickler):
    """Makes arrays contiguous, because only those leave the message."""

    def reducer_override(self, obj: Any) -> Any:
        if type(obj) is np.ndarray and not (obj.flags.c_contiguous or obj.flags.f_contiguous):
            return np.ascontiguousarray(obj).__reduce_ex__(5)
        return NotImplemented
