"""One function recorded as a CUDA graph, with the buffers that the recording reads and writes."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from .tree import mapped, tensors


class GraphCapture:
    """Static inputs, warm-up on a side stream, one capture, replays. Everything else runs on the caller's stream."""

    def __init__(
        self, torch: Any, function: Callable[..., Any], device: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> None:
        """The static inputs get shape, strides and dtype of the tensors in ``args`` and ``kwargs``."""
        self._torch = torch
        self._function = function
        self._device = device
        self._stream = torch.cuda.Stream(device)
        with torch.inference_mode(False):  # tensors of inference mode count no writes and cannot be written outside it
            self._args, self._kwargs = mapped((args, kwargs), self._static)
        self._inputs = tensors(torch, (self._args, self._kwargs))
        self._graph: Any | None = None
        self._outputs: Any = None

    @property
    def captured(self) -> bool:
        return self._graph is not None

    def load(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Copy a call's tensors into the static inputs."""
        for static, given in zip(self._inputs, tensors(self._torch, (args, kwargs)), strict=True):
            static.copy_(given.detach(), non_blocking=True)

    def store(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Copy the static inputs back into a call's tensors, after a function that has written to them."""
        for static, given in zip(self._inputs, tensors(self._torch, (args, kwargs)), strict=True):
            given.detach().copy_(static, non_blocking=True)

    def warm_up(self) -> tuple[Any, bool]:
        """Run eagerly on the side stream, on what was loaded: the outputs, and whether an input was written to."""
        torch = self._torch
        versions = [static._version for static in self._inputs]
        current = torch.cuda.current_stream(self._device)
        self._stream.wait_stream(current)
        with torch.cuda.stream(self._stream):
            outputs = self._function(*self._args, **self._kwargs)
        current.wait_stream(self._stream)
        for output in tensors(torch, outputs):
            if output.is_cuda:
                output.record_stream(current)
        return outputs, versions != [static._version for static in self._inputs]

    def capture(self) -> None:
        """Record the function; nothing of it is executed.

        Raises:
            Exception: what the function or the capture raised. Nothing is kept, and torch can be used as before.
        """
        torch, graph = self._torch, self._torch.cuda.CUDAGraph()
        with self._stream_kept():
            try:
                with torch.cuda.graph(graph, stream=self._stream, capture_error_mode="thread_local"):
                    outputs = self._function(*self._args, **self._kwargs)
            except BaseException:
                del graph
                self._end_cleanly()
                raise
        if any(output.requires_grad for output in tensors(torch, outputs)):
            raise ValueError("its outputs require grad: call it under torch.inference_mode() or torch.no_grad()")
        self._graph, self._outputs = graph, outputs

    def replay(self) -> Any:
        """Execute what was recorded, on what was loaded; the outputs are the same tensors every time."""
        assert self._graph is not None
        self._graph.replay()
        return self._outputs

    def _static(self, leaf: Any) -> Any:
        if not isinstance(leaf, self._torch.Tensor):
            return leaf
        expanded = any(stride == 0 and size > 1 for size, stride in zip(leaf.shape, leaf.stride(), strict=True))
        if expanded:  # many elements at one address, which cannot be written
            return self._torch.empty(leaf.shape, dtype=leaf.dtype, device=leaf.device)
        return self._torch.empty_strided(leaf.shape, leaf.stride(), dtype=leaf.dtype, device=leaf.device)

    @contextlib.contextmanager
    def _stream_kept(self) -> Iterator[None]:
        """torch leaves its capture stream current when a capture cannot be ended."""
        current = self._torch.cuda.current_stream(self._device)
        try:
            with self._torch.cuda.device(self._device):
                yield
        finally:
            self._torch.cuda.set_stream(current)

    def _end_cleanly(self) -> None:
        """An invalidated capture leaves torch's random generator as if it went on; one that ends well puts it right."""
        torch = self._torch
        torch.cuda.synchronize(self._device)
        stream = torch.cuda.Stream(self._device)
        with torch.cuda.graph(torch.cuda.CUDAGraph(), stream=stream, capture_error_mode="thread_local"):
            torch.zeros(1, device=self._device)
