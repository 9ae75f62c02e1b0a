"""Things that should not happen, counted."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["StreamingArtifactStats", "StreamingSchedulerDiagnostics"]


@dataclass(frozen=True)
class StreamingSchedulerDiagnostics:
    """Since the orchestrator was built.

    Attributes:
        stale_epoch_results: came for a session that was released already.
        orphaned_results: came for a session that had been cancelled, closed or failed meanwhile.
        duplicate_results: came for work that had been answered.
        cleanup_failures: sessions that could not be released entirely.
        slot_leaks: artifacts that were left over when their session was released.
    """

    stale_epoch_results: int = 0
    orphaned_results: int = 0
    duplicate_results: int = 0
    cleanup_failures: int = 0
    slot_leaks: int = 0


@dataclass(frozen=True)
class StreamingArtifactStats:
    """What a session holds now.

    Attributes:
        slot_count: values of artifacts.
        reference_count: stages and readers that these values are kept for.
    """

    slot_count: int
    reference_count: int


class SchedulerCounts:
    """The counters behind :class:`StreamingSchedulerDiagnostics`; written under the scheduling lock."""

    __slots__ = ("stale", "orphaned", "duplicate", "cleanup_failures", "slot_leaks")

    def __init__(self) -> None:
        self.stale = self.orphaned = self.duplicate = self.cleanup_failures = self.slot_leaks = 0

    def snapshot(self) -> StreamingSchedulerDiagnostics:
        return StreamingSchedulerDiagnostics(
            self.stale, self.orphaned, self.duplicate, self.cleanup_failures, self.slot_leaks
        )
