"""CUDA graph dispatch: calls run eagerly until their signature is stable, then a captured graph is replayed.

A graph launches all its kernels at once, which is faster if many small kernels are bound by launch overhead. See "CUDA
Graphs" in the CUDA C++ Programming Guide, and the notes on CUDA graphs in the documentation of ``torch.cuda``.
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
    """All leaves, in the order of :func:`mapped`."""
    if isinstance(value, (tuple, list)):
        for item in value:
            yield from leaves(item)
    elif isinstance(value, dict):
        for item in value.values():
            yield from leaves(item)
    else:
        yield value


def mapped(value: Any, change: Callable[[Any], Any]) -> Any:
    """The same structure with ``change`` applied to each leaf. Containers are new; named tuples keep their type."""
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
    """A captured graph with its static inputs. Warm-up runs on a side stream, all else on the caller's stream.

    Args:
        torch: the module.
        function: the function to capture.
        device: the CUDA device.
        args: positional arguments; the static inputs have the shapes, strides and dtypes of their tensors.
        kwargs: keyword arguments, likewise.
    """

    def __init__(
        self, torch: Any, function: Callable[..., Any], device: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> None:
        self._torch = torch
        self._function = function
        self._device = device
        self._stream = torch.cuda.Stream(device)
        with torch.inference_mode(False):  # inference tensors have no version counter and are read-only outside
            self._args, self._kwargs = mapped((args, kwargs), self._static)
        self._inputs = tensors(torch, (self._args, self._kwargs))
        self._graph: Any | None = None
        self._outputs: Any = None

    @property
    def captured(self) -> bool:
        """Whether a graph was captured."""
        return self._graph is not None

    def load(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Copy a call's tensors into the static inputs."""
        for static, given in zip(self._inputs, tensors(self._torch, (args, kwargs)), strict=True):
            static.copy_(given.detach(), non_blocking=True)

    def store(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Copy the static inputs back into a call's tensors, after the function has written to them."""
        for static, given in zip(self._inputs, tensors(self._torch, (args, kwargs)), strict=True):
            given.detach().copy_(static, non_blocking=True)

    def warm_up(self) -> tuple[Any, bool]:
        """Run eagerly on the side stream; returns the outputs, and whether the function wrote to an input."""
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
        """Capture the function without executing it.

        Raises:
            Exception: the function or the capture failed. The state of torch is restored.
        """
        torch, graph = self._torch, self._torch.cuda.CUDAGraph()
        with self._restoring_stream():
            try:
                with torch.cuda.graph(graph, stream=self._stream, capture_error_mode="thread_local"):
                    outputs = self._function(*self._args, **self._kwargs)
            except BaseException:
                del graph
                self._repair_generator()
                raise
        if any(output.requires_grad for output in tensors(torch, outputs)):
            raise ValueError("its outputs require grad: call it under torch.inference_mode() or torch.no_grad()")
        self._graph, self._outputs = graph, outputs

    def replay(self) -> Any:
        """Execute the graph on the loaded inputs. The outputs are the same tensors at each replay."""
        assert self._graph is not None
        self._graph.replay()
        return self._outputs

    def _static(self, leaf: Any) -> Any:
        if not isinstance(leaf, self._torch.Tensor):
            return leaf
        expanded = any(stride == 0 and size > 1 for size, stride in zip(leaf.shape, leaf.stride(), strict=True))
        if expanded:  # elements share an address, so copy_() cannot write them
            return self._torch.empty(leaf.shape, dtype=leaf.dtype, device=leaf.device)
        return self._torch.empty_strided(leaf.shape, leaf.stride(), dtype=leaf.dtype, device=leaf.device)

    @contextlib.contextmanager
    def _restoring_stream(self) -> Iterator[None]:
        """A failed capture leaves the capture stream current; restore the caller's."""
        current = self._torch.cuda.current_stream(self._device)
        try:
            with self._torch.cuda.device(self._device):
                yield
        finally:
            self._torch.cuda.set_stream(current)

    def _repair_generator(self) -> None:
        """A failed capture leaves the random generator in capture mode; a successful one resets it."""
        torch = self._torch
        torch.cuda.synchronize(self._device)
        stream = torch.cuda.Stream(self._device)
        with torch.cuda.graph(torch.cuda.CUDAGraph(), stream=stream, capture_error_mode="thread_local"):
            torch.zeros(1, device=self._device)


_BY_VALUE = (bool, int, str, bytes, complex, type(None))


class _Identity:
    """Compares an object by identity, and keeps it alive so that its id is not reused."""

    __slots__ = ("_object",)

    def __init__(self, value: object) -> None:
        self._object = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Identity) and self._object is other._object

    def __hash__(self) -> int:
        return id(self._object)


def signature_of(torch: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Hashable:
    """Signature of a call: structure, tensor shapes, dtypes, strides and devices, other arguments, and torch's modes.

    Numbers and text compare by value and type, dtypes and devices by value, all other objects by identity. A change
    inside such an object is not detected.
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
        return float, value.hex()  # distinguishes -0.0 from 0.0, and nan equals itself
    if type(value) in _BY_VALUE or isinstance(value, (torch.dtype, torch.device)):
        return type(value), value
    return _Identity(value)


_logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class GraphStatistics:
    """Counters of a dispatch over all branches.

    Attributes:
        eager: calls that ran eagerly, including warm-up calls.
        captures: captured graphs.
        replays: calls that replayed a graph.
        failures: failed captures.
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
    disabled: bool = False


class CudaGraphDispatch:
    """Runs ``function`` through a CUDA graph once the signature of its calls is stable.

    Each branch (conditional, unconditional, ...) has its own graph and static buffers. For a new signature (see
    :func:`signature_of`), a branch runs ``steady_after`` calls eagerly, then ``warm_up`` calls eagerly on a side
    stream; the next call captures and replays. A change of the signature discards the graph. Each call executes the
    work on the device exactly once, so state on the device, such as a cache written in place, advances as in eager
    execution.

    As for any CUDA graph, the function must not synchronize with the device (``.item()``, ``.cpu()``), must not modify
    Python state (a replay runs no Python code) and must not write to its tensor arguments; tensors that are not
    arguments must keep their address. A branch whose capture fails, or that writes to its arguments, stays eager until
    :meth:`reset`. Calls without a CUDA device are eager. The first reason is logged once.

    The outputs of a replay are **reused buffers**, valid until the next call of the same branch, unless
    ``clone_outputs`` is set. Calls must come from one thread at a time and from the same stream.

    Args:
        function: any callable over tensors, including tensors inside tuples, lists and dicts.
        steady_after: eager calls with one signature before the warm-up, at least 0.
        warm_up: eager calls on the side stream, at least 1, as libraries allocate their workspaces there.
        clone_outputs: return copies of the outputs.
        name: name of the function in log messages.

    Raises:
        TorchMissingError: torch is not installed.
        ValueError: ``steady_after`` or ``warm_up`` is too small.
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
        """The first reason for a fallback to eager execution; ``None`` without a fallback."""
        return self._fallback.reason

    def statistics(self) -> GraphStatistics:
        """Counters so far."""
        return GraphStatistics(self._eager, self._captures, self._replays, self._failures)

    def reset(self, branch: Hashable = None, *, every: bool = False) -> None:
        """Discard the graph and buffers of one branch, or of every branch; the next calls start over."""
        if every:
            self._branches.clear()
        else:
            self._branches.pop(branch, None)

    def __call__(self, *args: Any, branch: Hashable = None, **kwargs: Any) -> Any:
        """Run the function for one branch. ``branch`` is not passed to the function."""
        state = self._branches.setdefault(branch, _Branch())
        if state.disabled:
            return self._run_eagerly(args, kwargs)
        signature = signature_of(self._torch, args, kwargs)
        if signature != state.signature:
            state = self._branches[branch] = self._start(signature, args, kwargs)
        if state.device is None or state.eager_calls < self._steady_after:
            state.eager_calls += 1
            return self._run_eagerly(args, kwargs)
        return self._output_of(self._run_graph(state, args, kwargs))

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

    def _run_graph(self, state: _Branch, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        try:
            capture = self._load(state, args, kwargs)
        except Exception as error:
            return self._fail(state, error, args, kwargs)
        if state.eager_calls < self._captured_after:
            return self._warm_up(state, capture, args, kwargs)
        try:
            self._capture_once(capture)
        except BaseException as error:
            reraise_interrupt(error)
            return self._fail(state, error, args, kwargs)
        self._replays += 1
        return capture.replay()

    def _load(self, state: _Branch, args: tuple[Any, ...], kwargs: dict[str, Any]) -> GraphCapture:
        if state.capture is None:
            state.capture = GraphCapture(self._torch, self._function, state.device, args, kwargs)
        state.capture.load(args, kwargs)
        return state.capture

    def _warm_up(self, state: _Branch, capture: GraphCapture, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        state.eager_calls += 1
        self._eager += 1
        outputs, wrote = capture.warm_up()
        if wrote:
            capture.store(args, kwargs)
            self._disable(state, "it writes to its tensor arguments")
        return outputs

    def _capture_once(self, capture: GraphCapture) -> None:
        if not capture.captured:
            capture.capture()
            self._captures += 1

    def _fail(self, state: _Branch, error: BaseException, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        self._failures += 1
        self._disable(state, "the capture failed", error)
        return self._run_eagerly(args, kwargs)

    def _disable(self, state: _Branch, why: str, error: BaseException | None = None) -> None:
        self._fallback.report(why, error)
        state.disabled, state.capture, state.signature = True, None, None

    def _run_eagerly(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        self._eager += 1
        return self._function(*args, **kwargs)

    def _output_of(self, outputs: Any) -> Any:
        if not self._clone_outputs:
            return outputs
        return mapped(outputs, lambda leaf: leaf.clone() if isinstance(leaf, self._torch.Tensor) else leaf)
