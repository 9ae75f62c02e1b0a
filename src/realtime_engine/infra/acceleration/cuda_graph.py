"""CUDA-graph dispatch: eager until a call has settled, then one recorded graph, replayed.

A graph launches all its kernels at once, which pays where many small kernels wait for the host. See "CUDA Graphs" in
the CUDA C++ Programming Guide, and the notes on them in torch's documentation of ``torch.cuda``.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any

from ...core.errors import reraise_interrupt
from .fallback import Fallback, name_of
from .graph_capture import GraphCapture
from .lazy_torch import has_cuda, need_torch
from .signature import signature_of
from .tree import mapped, tensors

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
