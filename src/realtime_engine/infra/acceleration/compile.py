"""``torch.compile`` by a policy, with a fallback to the plain function if compilation fails."""

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
    """A tensor of zeros for a warm-up call.

    Attributes:
        shape: size of each dimension.
        dtype: name of a torch dtype, without ``torch.``.
        device: name of a torch device.
    """

    shape: Sequence[int]
    dtype: str = "float32"
    device: str = "cuda"

    def zeros(self, torch: Any) -> Any:
        """Create the tensor."""
        return torch.zeros(tuple(self.shape), dtype=getattr(torch, self.dtype), device=self.device)


@dataclass(frozen=True)
class CompilePolicy:
    """Options of a compilation.

    Attributes:
        enabled: ``False`` runs the plain function, to compare or to debug.
        mode: name of a ``torch.compile`` mode. ``reduce-overhead`` and ``max-autotune`` create CUDA graphs, so they
            must not be used inside :class:`~.cuda_graph.CudaGraphDispatch`.
        dynamic: ``True`` compiles for any size, ``False`` once for each size, ``None`` leaves the choice to torch.
        fullgraph: treat a graph break as a failure. Then no part of the function has run when compilation fails.
        backend: name of a ``torch.compile`` backend, or a callable.
        cache_dir: persistent directory for compiled code. It applies to the whole process, and only if
            ``TORCHINDUCTOR_CACHE_DIR`` is not set.
        warm_up: the positional tensor arguments of each call of :meth:`Compiled.warm_up`.

    Raises:
        ValueError: the mode is unknown.
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
    """A function or module that is compiled at its first call.

    If compilation fails, at the first call or for a later shape, that call and all later ones run the plain function,
    and one warning is logged. Errors of the function itself propagate unchanged. Without ``fullgraph``, torch may have
    executed a part of the function before compilation of the next part fails, so a function that modifies its own
    state should set it.

    Args:
        function: the function or module.
        policy: options of the compilation.
        name: name of the function in log messages.

    Raises:
        TorchMissingError: torch is not installed.
    """

    def __init__(
        self, function: Callable[..., Any], policy: CompilePolicy | None = None, *, name: str | None = None
    ) -> None:
        self._torch = need_torch("Compiled")
        self._function = function
        self._policy = policy or CompilePolicy()
        self._fallback = Fallback(_logger, f"compiling of {name or name_of(function)}")
        self._compiled = self._prepared() if self._policy.enabled else None

    @property
    def fallback_reason(self) -> str | None:
        """Why the plain function runs although the policy enables compilation; ``None`` without a fallback."""
        return self._fallback.reason

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the compiled function, or the plain one after a fallback."""
        if self._compiled is None:
            return self._function(*args, **kwargs)
        try:
            return self._compiled(*args, **kwargs)
        except Exception as error:
            if not _is_compiler_error(error):
                raise
            failure = error
        result = self._function(*args, **kwargs)  # if this raises too, the arguments are the cause
        self._fallback.report("it does not compile", failure)
        self._compiled = None
        return result

    def warm_up(self) -> None:
        """Call the function with all shapes of the policy, so that later calls do not wait for the compiler.

        The modes of torch (``torch.inference_mode()``, autocast) must be those of later calls, as they are part of the
        compiled code.
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
        except Exception as error:  # unsupported Python version or platform
            self._fallback.report("torch.compile refuses", error)
            return None
        return compiled

    def _use_cache(self, cache_dir: Path) -> None:
        chosen = os.environ.get(_CACHE_VARIABLE)
        if chosen is not None:
            if Path(chosen).resolve() != cache_dir.resolve():
                _logger.warning("compiled code is stored in %s=%s, not in %s", _CACHE_VARIABLE, chosen, cache_dir)
            return
        try:
            cache_dir.mkdir(parents=True, exist_ok=True)
            importlib.import_module("torch._inductor.config").fx_graph_cache = True  # type: ignore[attr-defined]
        except (OSError, ImportError) as error:
            _logger.warning("compiled code is not stored in %s: %s", cache_dir, error)
            return
        os.environ[_CACHE_VARIABLE] = str(cache_dir.resolve())


def _is_compiler_error(error: BaseException) -> bool:
    """Decides by the module names of the error's classes, without importing these modules."""
    return any(kind.__module__.startswith(_COMPILERS) for kind in type(error).__mro__)
