"""CUDA-graph dispatch: eager until a call has settled, then one recorded graph, replayed.

A graph launches all its kernels at once, which pays where many small kernels wait for the host. See "CUDA Graphs" in
the CUDA C++ Programming Guide, and the notes on them in torch's documentation of ``torch.cuda``.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass
from typing import Any

from ...core.errors import reraise_interrupt
from ._torch import Fallback, has_cuda, name_of, need_torch


def leaves(value: Any) -> Iterator[Any]:
    """All leaves, in the order in which :func:`mapped` meets them."""
    if isinstance(value, (tuple, list)):
        for item in value:
            yield from leaves(item)
    elif isinstance(value, dict):
        for item in value.values():
            yield from leaves(item)
    else:
        yield value


def mapped(value: Any, change: Callable[[Any], Any]) -> Any:
    """The same structure with every leaf changed; containers are new, and named tuples stay what they are."""
    if isinstance(value, tuple):
        items = (mapped(item, change) for item in value)
        return type(value)(*items) if hasattr(value, "_fields") else tuple(items)
    if isinstance(value, list):
        return [mapped(item, change) for item in value]
    if isinstance(value, dict):
        return {key: mapped(item, change) for key, item in value.items()}
    return change(value)


def tensors(torch: Any, value: Any) -> list[Any]:
    """The leaves that are tensors."""
    return [leaf for leaf in leaves(value) if isinstance(leaf, torch.Tensor)]


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


_logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class GraphStatistics:
    """How a dispatch has run so far, over all branches.

    Attributes:
        eager: calls that ran as they are, warm-ups included.
        captures: graphs that were recorded.
        replays: calls that were answered by a graph.
        failures: captures that failed.
    """

    eager: int
    captures: int
    replays: int
    failures: int


@dataclass
class _Branch:
    signature: Hashable = None
    eager_calls: int = 0  # with this signature
    device: Any = None  # None: this signature cannot be captured
    capture: GraphCapture | None = None
    given_up: bool = False


class CudaGraphDispatch:
    """Calls ``function``, by a CUDA graph as soon as its calls have settled.

    Each branch (conditional, unconditional, ...) has a graph of its own, with its own static buffers. With one
    signature (shapes, dtypes, strides, devices, other arguments: see :func:`~.signature.signature_of`) a branch first
    runs ``steady_after`` calls eagerly, then ``warm_up`` calls eagerly on a side stream; the next call captures and
    replays. A new signature drops the graph and starts over. Each call runs the work on the device exactly once, so
    state on the device (a cache that is written in place) advances as it would eagerly.

    What the function must hold to, as for any CUDA graph: no waiting for the device (``.item()``, ``.cpu()``),
    no change of state in Python (a replayed call runs none of it), no writing to its tensor arguments, and tensors that
    are not arguments stay where they are. A branch whose capture fails, or that is seen to write to its arguments,
    stays eager until :meth:`reset`; calls without a CUDA device are eager too. The first reason is logged, once.

    Outputs of a replay are **reused buffers**: valid until the next call of the same branch. ``clone_outputs``
    makes them the caller's own, at the price of a copy. To be called from one thread at a time and always on the
    same stream.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        *,
        steady_after: int = 2,
        warm_up: int = 2,
        clone_outputs: bool = False,
        name: str | None = None,
    ) -> None:
        """
        Args:
            function: any callable over tensors, also inside tuples, lists and dicts.
            steady_after: eager calls with one signature before the warm-up, at least 0.
            warm_up: eager calls on the side stream, at least 1, since libraries allocate their workspaces there.
            name: what log lines call the function.

        Raises:
            TorchMissingError: torch is not installed.
        """
        if steady_after < 0 or warm_up < 1:
            raise ValueError(
                f"steady_after must be at least 0 and warm_up at least 1, not {steady_after} and {warm_up}"
            )
        self._torch = need_torch("CudaGraphDispatch")
        self._function = function
        self._steady_after = steady_after
        self._captured_after = steady_after + warm_up
        self._clone_outputs = clone_outputs
        self._branches: dict[Hashable, _Branch] = {}
        self._fallback = Fallback(_logger, f"CUDA graph of {name or name_of(function)}")
        self._eager = self._captures = self._replays = self._failures = 0

    @property
    def fallback_reason(self) -> str | None:
        """Why calls first stayed eager that should not; ``None`` if that never happened."""
        return self._fallback.reason

    def statistics(self) -> GraphStatistics:
        return GraphStatistics(self._eager, self._captures, self._replays, self._failures)

    def reset(self, branch: Hashable = None, *, every: bool = False) -> None:
        """Drop the graph of a branch, or of every one, with its buffers; the next calls start over."""
        if every:
            self._branches.clear()
        else:
            self._branches.pop(branch, None)

    def __call__(self, *args: Any, branch: Hashable = None, **kwargs: Any) -> Any:
        """Run the function for one branch. ``branch`` is not handed on to it."""
        state = self._branches.setdefault(branch, _Branch())
        if state.given_up:
            return self._run_eagerly(args, kwargs)
        signature = signature_of(self._torch, args, kwargs)
        if signature != state.signature:
            state = self._branches[branch] = self._start(signature, args, kwargs)
        if state.device is None or state.eager_calls < self._steady_after:
            state.eager_calls += 1
            return self._run_eagerly(args, kwargs)
        return self._handed_out(self._settled(state, args, kwargs))

    def _start(self, signature: Hashable, args: tuple[Any, ...], kwargs: dict[str, Any]) -> _Branch:
        if not has_cuda(self._torch):
            self._fallback.report("there is no CUDA device")
            return _Branch(signature)
        devices = {tensor.device for tensor in tensors(self._torch, (args, kwargs))}
        if len(devices) == 1 and next(iter(devices)).type == "cuda":
            return _Branch(signature, device=devices.pop())
        where = ", ".join(sorted(map(str, devices))) or "nowhere: there are none"
        self._fallback.report(f"its tensor arguments must all be on one CUDA device, they are on {where}")
        return _Branch(signature)

    def _settled(self, state: _Branch, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        try:
            capture = self._prepared(state, args, kwargs)
        except Exception as error:
            return self._refused(state, error, args, kwargs)
        if state.eager_calls < self._captured_after:
            return self._warmed_up(state, capture, args, kwargs)
        try:
            self._captured(capture)
        except BaseException as error:
            reraise_interrupt(error)
            return self._refused(state, error, args, kwargs)
        self._replays += 1
        return capture.replay()

    def _prepared(self, state: _Branch, args: tuple[Any, ...], kwargs: dict[str, Any]) -> GraphCapture:
        if state.capture is None:
            state.capture = GraphCapture(self._torch, self._function, state.device, args, kwargs)
        state.capture.load(args, kwargs)
        return state.capture

    def _warmed_up(self, state: _Branch, capture: GraphCapture, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        state.eager_calls += 1
        self._eager += 1
        outputs, wrote = capture.warm_up()
        if wrote:
            capture.store(args, kwargs)
            self._give_up(state, "it writes to its tensor arguments")
        return outputs

    def _captured(self, capture: GraphCapture) -> None:
        if not capture.captured:
            capture.capture()
            self._captures += 1

    def _refused(self, state: _Branch, error: BaseException, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        self._failures += 1
        self._give_up(state, "the capture failed", error)
        return self._run_eagerly(args, kwargs)

    def _give_up(self, state: _Branch, why: str, error: BaseException | None = None) -> None:
        self._fallback.report(why, error)
        state.given_up, state.capture, state.signature = True, None, None

    def _run_eagerly(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        self._eager += 1
        return self._function(*args, **kwargs)

    def _handed_out(self, outputs: Any) -> Any:
        if not self._clone_outputs:
            return outputs
        return mapped(outputs, lambda leaf: leaf.clone() if isinstance(leaf, self._torch.Tensor) else leaf)
