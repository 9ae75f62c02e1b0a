"""Optional helpers that reduce the time or memory of a torch model. Each imports torch when it is constructed."""

from ._torch import OverlapError, PrefetchEmptyError, PrefetchFullError, TorchMissingError
from .compile import Compiled, CompilePolicy, TensorSpec
from .cuda_graph import CudaGraphDispatch, GraphStatistics
from .encoder import EmbeddingCache, EncoderLifecycle, content_key
from .overlap import OverlapRunner, StreamRunner, SynchronousRunner, ThreadRunner, overlap_runner
from .prefetch import FramePrefetcher
from .prewarm import Prewarm, PrewarmEvent, PrewarmReport, PrewarmStep

__all__ = [
    "CompilePolicy",
    "Compiled",
    "CudaGraphDispatch",
    "EmbeddingCache",
    "EncoderLifecycle",
    "FramePrefetcher",
    "GraphStatistics",
    "OverlapError",
    "OverlapRunner",
    "PrefetchEmptyError",
    "PrefetchFullError",
    "Prewarm",
    "PrewarmEvent",
    "PrewarmReport",
    "PrewarmStep",
    "StreamRunner",
    "SynchronousRunner",
    "TensorSpec",
    "ThreadRunner",
    "TorchMissingError",
    "content_key",
    "overlap_runner",
]
