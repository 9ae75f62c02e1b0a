"""One life of a session in the scheduler."""

from __future__ import annotations

import threading
from collections import deque
from types import TracebackType

from ..waiters import Waiter
from .diagnostics import StreamingArtifactStats
from .graph import PipelineGraph
from .metrics import SessionRecord
from .outputs import StreamingOutput
from .progress import StageProgress
from .slots import Slot
from .tasks import StreamingSessionCloseReason, StreamingSessionContext, StreamingSessionStatus
from .work import ActorLane, StageWork

RUNNING = StreamingSessionStatus.RUNNING


class StreamingSession:
    """What the scheduler knows about one epoch of a session. Guarded by the scheduling lock.

    Attributes:
        lanes: the actors that hold its state, by stage.
        final: its last sequence, when that is known.
        slots: (artifact, sequence) -> value, for everything that somebody still needs.
        next_input: artifact -> the sequence that is accepted next.
        controls: artifact -> (value, version, when it was set).
        outputs: what can be read; ``emitted`` and ``polled`` count it by output artifact.
        works: what the actors have of it.
        waiting_turns: how many stages it waits for a turn at.
        error, trace: what it has failed with, and the traceback of that.
        close_reason: what the stages are told, once it has ended.
        released: everything that it held has been let go of.
        forget: it is to be unknown as soon as it is released.
    """

    def __init__(
        self,
        context: StreamingSessionContext,
        graph: PipelineGraph,
        lanes: tuple[ActorLane, ...],
        final: int | None,
        window: int,
    ) -> None:
        self.context = context
        self.session_id = context.session_id
        self.lanes = lanes
        self.status = RUNNING
        self.error: BaseException | None = None
        self.trace: TracebackType | None = None
        self.cleanup_error: BaseException | None = None
        self.close_reason: StreamingSessionCloseReason | None = None
        self.final = final
        self.draining = False
        self.finished = False
        self.released = False
        self.forget = False
        self.stages = tuple(StageProgress(self, table, window) for table in graph.stages)
        self.slots: dict[tuple[str, int], Slot] = {}
        self.next_input = dict.fromkeys(graph.inputs, 0)
        self.controls: dict[str, tuple[object, int, float]] = dict.fromkeys(graph.controls, (None, 0, 0.0))
        self.outputs: deque[StreamingOutput] = deque()
        self.emitted = [0] * len(graph.outputs)
        self.polled = [0] * len(graph.outputs)
        self.held: dict[tuple[int, int], Slot] = {}  # (output, sequence): done before an earlier one
        self.works: set[StageWork] = set()
        self.waiting_turns = 0
        self.record = SessionRecord(window)
        self.push_line: deque[Waiter] = deque()
        self.output_line: deque[Waiter] = deque()
        self.watchers: list[threading.Event] = []  # of threads that wait for it to be idle, finished or released

    @property
    def accepted(self) -> int:
        """How many sequences have all their inputs."""
        return min(self.next_input.values())

    @property
    def idle(self) -> bool:
        """Nothing of it runs or could run now; one that has ended is idle once it is released."""
        if self.status is not RUNNING:
            return self.released
        return not self.works and not self.waiting_turns

    def release(self, artifact: str, sequence_id: int) -> Slot:
        """One use of a value is over. The slot is returned so that the caller chooses where a value is let go of."""
        slot = self.slots[artifact, sequence_id]
        slot.references -= 1
        if slot.references == 0:
            del self.slots[artifact, sequence_id]
        return slot

    def drop_leaks(self) -> int:
        """Forget values that nobody can read, of a session without work; returns how many there were."""
        readable = {(output.artifact, output.sequence_id) for output in self.outputs}
        leaked = [key for key in self.slots if key not in readable]
        for key in leaked:
            del self.slots[key]
        return len(leaked)

    def artifact_stats(self) -> StreamingArtifactStats:
        return StreamingArtifactStats(len(self.slots), sum(slot.references for slot in self.slots.values()))

    def raise_error(self) -> None:
        """Raise what it has failed with, if it has; every time with the traceback that it came with."""
        if self.error is not None:
            raise self.error.with_traceback(self.trace)

    def notify(self) -> None:
        """Let the threads that wait for this session look again."""
        for watcher in self.watchers:
            watcher.set()
