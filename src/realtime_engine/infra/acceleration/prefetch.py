"""Copies frames from the GPU to pinned host memory while the GPU computes the next ones."""

from __future__ import annotations

import logging
import threading
from collections import deque
from typing import Any

from ._torch import Fallback, PrefetchEmptyError, PrefetchFullError, need_torch

_logger = logging.getLogger(__name__)


class FramePrefetcher:
    """A ring of buffers: ``put`` starts a copy without waiting for it, ``get`` waits for the oldest copy.

    ``put`` copies the frames on the device, on the caller's stream, and then to pinned memory on a separate stream. The
    source may therefore be overwritten, in the order of the caller's stream, as soon as ``put`` returns: outputs of a
    CUDA graph need no further copy.

    ``get`` returns a **reused buffer**, valid until the next ``get``. Frames that are not on a CUDA device are copied
    synchronously, and the reason is logged once. ``put`` and ``get`` may be called from two threads.

    Args:
        depth: maximum number of unread puts, at least 1. With 2, a loop can put new frames and then get the previous
            ones. There is one buffer more.

    Raises:
        TorchMissingError: torch is not installed.
        ValueError: ``depth`` is below 1.
    """

    def __init__(self, depth: int = 2) -> None:
        if depth < 1:
            raise ValueError(f"depth must be at least 1, not {depth}")
        self._torch = need_torch("FramePrefetcher")
        self._fallback = Fallback(_logger, "prefetch of frames")
        self._depth = depth
        self._lock = threading.Lock()
        self._free = deque(_Buffer(self._torch) for _ in range(depth + 1))
        self._filled: deque[_Buffer] = deque()
        self._reading: _Buffer | None = None
        self._stream: Any = None

    @property
    def fallback_reason(self) -> str | None:
        """The first reason for a synchronous copy; ``None`` without one."""
        return self._fallback.reason

    @property
    def unread(self) -> int:
        """Number of puts not yet returned by ``get``."""
        return len(self._filled)

    def put(self, frames: Any) -> None:
        """Start copying a tensor of any shape and dtype to the host.

        Raises:
            PrefetchFullError: ``depth`` puts are unread.
        """
        with self._lock:
            if self.unread == self._depth:
                raise PrefetchFullError(f"{self.unread} puts are unread: get() before the next put()")
            buffer = self._free.popleft()
        try:
            buffer.fill(frames.detach(), self._stream_for(frames))
        except BaseException:
            self._free.append(buffer)
            raise
        self._filled.append(buffer)

    def get(self) -> Any:
        """Return the oldest unread frames as a host tensor of the same shape and dtype.

        Raises:
            PrefetchEmptyError: there are no unread puts.
        """
        with self._lock:
            if not self._filled:
                raise PrefetchEmptyError("there are no frames: put() some first")
            if self._reading is not None:
                self._free.append(self._reading)
            buffer = self._reading = self._filled.popleft()
        return buffer.read()

    def _stream_for(self, frames: Any) -> Any | None:
        if not frames.is_cuda:
            self._fallback.report(f"frames are on {frames.device}, not on a CUDA device")
            return None
        if self._stream is None or self._stream.device != frames.device:
            self._stream = self._torch.cuda.Stream(frames.device)
        return self._stream


class _Buffer:
    """A pinned host tensor and a device tensor, reallocated when shape, dtype or device change."""

    def __init__(self, torch: Any) -> None:
        self._torch = torch
        self._made_for: tuple[Any, ...] | None = None
        self._on_device: Any = None
        self._on_host: Any = None
        self._copied: Any = None  # an event while a copy may be in progress

    def fill(self, frames: Any, stream: Any | None) -> None:
        """Copy ``frames`` on ``stream``; without a stream, copy synchronously on the host."""
        kind = (frames.shape, frames.dtype, frames.device)
        if kind != self._made_for:
            self._make(frames, pinned=stream is not None)
            self._made_for = kind
        if stream is None:
            self._on_host.copy_(frames)
            return
        self._on_device.copy_(frames, non_blocking=True)
        stream.wait_stream(self._torch.cuda.current_stream(frames.device))
        with self._torch.cuda.stream(stream):
            self._on_host.copy_(self._on_device, non_blocking=True)
        event = self._torch.cuda.Event()
        event.record(stream)
        self._copied = event

    def read(self) -> Any:
        """Wait for the copy and return the host tensor."""
        if self._copied is not None:
            self._copied.synchronize()
            self._copied = None
        return self._on_host

    def _make(self, frames: Any, *, pinned: bool) -> None:
        self._on_host = self._torch.empty(frames.shape, dtype=frames.dtype, pin_memory=pinned)
        self._on_device = self._torch.empty(frames.shape, dtype=frames.dtype, device=frames.device) if pinned else None
