"""Frames on their way from the GPU to pinned memory of the host, while the GPU makes the next ones."""

from __future__ import annotations

import logging
import threading
from collections import deque
from typing import Any

from ._torch import Fallback, PrefetchEmptyError, PrefetchFullError, need_torch

_logger = logging.getLogger(__name__)


class FramePrefetcher:
    """A ring of buffers: ``put`` begins a copy and does not wait for it, ``get`` waits for the oldest one.

    ``put`` first copies the frames on the device, on the caller's stream, and then from there to pinned memory on a
    stream of its own. So whoever made the frames may overwrite them, in the order of the caller's stream, as soon as
    ``put`` has returned: outputs of a CUDA graph need no copy of their own.

    What ``get`` returns is a **reused buffer**: valid until the next ``get``; there is one buffer more than puts that
    may be unread. Frames that are not on a CUDA device are copied at once, and the reason is logged once.
    ``put`` and ``get`` may be called from two threads.
    """

    def __init__(self, depth: int = 2) -> None:
        """
        Args:
            depth: puts that may be unread at the same time, at least 1. With 2, a loop can put what is new and then get
                what came before it.

        Raises:
            TorchMissingError: torch is not installed.
        """
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
        """Why frames were first copied at once; ``None`` if that never happened."""
        return self._fallback.reason

    @property
    def unread(self) -> int:
        """Puts that no ``get`` has taken yet."""
        return len(self._filled)

    def put(self, frames: Any) -> None:
        """Begin to bring a tensor of any shape and dtype to the host.

        Raises:
            PrefetchFullError: as many puts as may be are unread.
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
        """The oldest unread frames, as a tensor on the host with the shape and dtype that were put.

        Raises:
            PrefetchEmptyError: everything was read.
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
    """Pinned memory with its place on the device, both made for the first frames and remade for other ones."""

    def __init__(self, torch: Any) -> None:
        self._torch = torch
        self._made_for: tuple[Any, ...] | None = None
        self._on_device: Any = None
        self._on_host: Any = None
        self._copied: Any = None  # an event, while a copy may be running

    def fill(self, frames: Any, stream: Any | None) -> None:
        """``stream``: where to copy; ``None`` copies at once, from the host to the host."""
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
        """Wait for the copy; the buffer itself."""
        if self._copied is not None:
            self._copied.synchronize()
            self._copied = None
        return self._on_host

    def _make(self, frames: Any, *, pinned: bool) -> None:
        self._on_host = self._torch.empty(frames.shape, dtype=frames.dtype, pin_memory=pinned)
        self._on_device = self._torch.empty(frames.shape, dtype=frames.dtype, device=frames.device) if pinned else None
