"""What leaves a pipeline."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

__all__ = ["StreamingOutput"]

ControlStamp: TypeAlias = tuple[int, float]
"""(version of a control, when it was set in monotonic seconds)"""


class OutputTriple(NamedTuple):
    """The tuple that an output is."""

    sequence_id: int
    artifact: str
    value: object


class StreamingOutput(OutputTriple):
    """``(sequence_id, artifact, value)``, and what is known about it.

    Attributes:
        controls: control -> the version of it that this was made with, 0 for one that was not set; the oldest version
            when several stages on the way sampled it. Empty without controls.
        emitted_at: when it could be read, in monotonic seconds.
    """

    controls: dict[str, int]
    emitted_at: float
