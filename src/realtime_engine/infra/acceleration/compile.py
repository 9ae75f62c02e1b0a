"""``torch.compile`` by a policy, with the plain function behind it for when compiling fails."""

from __future__ import annotations

import importlib
import logging
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ._torch import Fallback, name_of, need_torch

_logger = logging.getLogger(__name__)

_CACHE_VARIABLE = "TORCHINDUCTOR_CACHE_DIR"
_MODES = (None, "default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs")
_COMPILERS = ("torch._dynamo", "torch._inductor", "torch._functorch", "triton")


@dataclass(frozen=True)
class TensorSpec:
    """A tensor to warm up with, filled with zeros.

    Attributes:
        shape: its size.
        dtype: name of a torch dtype, without ``torch.``.
        device: where it lies.
    """

    shape: Sequence[int]
    dtype: str = "float32"
    device: str = "cuda"

    def zeros(self, torch: Any) -> Any:
        return torch.zeros(tuple(self.shape), dtype=getattr(torch, self.dtype), device=self.device)


@dataclass(frozen=True)
class CompilePolicy:
    """How to compile.

    Attributes:
        enabled: ``False`` leaves the function as it is, to compare or to debug.
        mode: torch's name of a mode. ``reduce-overhead`` and ``max-autotune`` make CUDA graphs of their own: take
            another one for what :class:`~.cuda_graph.CudaGraphDispatch` runs.
        dynamic: ``True`` compiles for any size, ``False`` once for each, ``None`` lets torch find out.
        fullgraph: a break in the graph is a failure, so nothing has been executed when compiling fails.
        backend: torch's name of a backend, or a callable.
        cache_dir: where compiled code is kept over the end of the process. It counts for the whole process, and
            only if ``TORCHINDUCTOR_CACHE_DIR`` is not set yet.
        warm_up: the positional tensor arguments of each call that :meth:`Compiled.warm_up` makes.
    """

    enabled: bool = True
    mode: str | None = None
    dynamic: bool | None = None
    fullgraph: bool = False
    backend: str | Callable[..., Any] = "inductor"
    cache_dir: Path | None = None
    warm_up: Sequence[Sequence[TensorSpec]] = ()

    def __post_init__(self) -> None:
        if self.mode not in _MODES:
            raise ValueError(f"mode must be one of {', '.join(map(repr, _MODES))}, not {self.mode!r}")


class Compiled:
    """A function or module, compiled with its first call.

    When compiling fails, now or for a later shape, that call and all further ones run the plain function, and one
    line is logged. What the function itself raises comes out as it is. Unless ``fullgraph`` is set, torch may have
    executed a part of the function before it fails on the next one, so a function that writes to its own state
    should set it.
    """

    def __init__(
        self, function: Callable[..., Any], policy: CompilePolicy | None = None, *, name: str | None = None
    ) -> None:
        """
        Raises:
            TorchMissingError: torch is not installed.
        """
        self._torch = need_torch("Compiled")
        self._function = function
        self._policy = policy or CompilePolicy()
        self._fallback = Fallback(_logger, f"compiling of {name or name_of(function)}")
        self._compiled = self._prepared() if self._policy.enabled else None

    @property
    def fallback_reason(self) -> str | None:
        """Why the plain function runs although the policy says otherwise; ``None`` as long as it does not."""
        return self._fallback.reason

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self._compiled is None:
            return self._function(*args, **kwargs)
        try:
            return self._compiled(*args, **kwargs)
        except Exception as error:
            if not _is_of_the_compiler(error):
                raise
            failure = error
        result = self._function(*args, **kwargs)  # may raise as well: then these arguments are to blame
        self._fallback.report("it does not compile", failure)
        self._compiled = None
        return result

    def warm_up(self) -> None:
        """Call with every shape of the policy, so that nobody waits for the compiler later.

        To be called under the same modes (``torch.inference_mode()``, autocast) as later: they are compiled in.
        """
        for specs in self._policy.warm_up:
            self(*(spec.zeros(self._torch) for spec in specs))

    def _prepared(self) -> Callable[..., Any] | None:
        policy = self._policy
        if policy.cache_dir is not None:
            self._use_cache(policy.cache_dir)
        try:
            compiled: Callable[..., Any] = self._torch.compile(
                self._function,
                mode=policy.mode,
                dynamic=policy.dynamic,
                fullgraph=policy.fullgraph,
                backend=policy.backend,
            )
        except Exception as error:  # a Python or a platform that torch cannot compile for
            self._fallback.report("torch.compile refuses", error)
            return None
        return compiled

    def _use_cache(self, cache_dir: Path) -> None:
        chosen = os.environ.get(_CACHE_VARIABLE)
        if chosen is not None:
            if Path(chosen).resolve() != cache_dir.resolve():
                _logger.warning("compiled code goes to %s=%s, not to %s", _CACHE_VARIABLE, chosen, cache_dir)
            return
        try:
            cache_dir.mkdir(parents=True, exist_ok=True)
            importlib.import_module("torch._inductor.config").fx_graph_cache = True  # type: ignore[attr-defined]
        except (OSError, ImportError) as error:
            _logger.warning("compiled code is not kept in %s: %s", cache_dir, error)
            return
        os.environ[_CACHE_VARIABLE] = str(cache_dir.resolve())


def _is_of_the_compiler(error: BaseException) -> bool:
    """By the modules of its classes, which need not be imported for that."""
    return any(kind.__module__.startswith(_COMPILERS) for kind in type(error).__mro__)
