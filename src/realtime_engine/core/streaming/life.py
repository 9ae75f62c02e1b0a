"""One epoch of a served session inside its pipeline."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from ..equality import same_value
from ..errors import reraise_interrupt
from ..messages import Stamps
from .errors import contained
from .request import NO_ACTION, AppliedAction, ChunkRequest, ControlHistory, PlayerInput

if TYPE_CHECKING:
    from .orchestrator import StreamingPipelineOrchestrator
    from .outputs import StreamingOutput

T = TypeVar("T")
Controls = Callable[[Mapping[str, Any]], Mapping[str, object]]
Inputs = Callable[[ChunkRequest], Mapping[str, object]]


class Ports(NamedTuple):
    """Where a pipeline is fed and read.

    Attributes:
        outputs: artifacts that leave it.
        controls: names of its controls.
        to_controls: conditioning -> control -> value.
        to_inputs: request -> input artifact -> value.
    """

    outputs: frozenset[str]
    controls: frozenset[str]
    to_controls: Controls
    to_inputs: Inputs


class FinishedChunk(NamedTuple):
    """What came out for one sequence; ``stamps`` lacks the moment at which it is emitted."""

    output: object
    action_id: Any
    stamps: Stamps


class Life:
    """Feeds one epoch of a session, and says of which action each chunk tells. Used by one thread at a time."""

    def __init__(
        self, pipeline: StreamingPipelineOrchestrator, ports: Ports, session_id: str, context: Mapping[str, Any]
    ) -> None:
        self._pipeline = pipeline
        self._ports = ports
        self._session_id = session_id
        self._player = PlayerInput(context)
        self._history = ControlHistory(ports.controls)
        self._values: dict[str, object] = {}
        self._actions = 0
        self._requests: deque[ChunkRequest] = deque()
        self._gathered: dict[str, deque[StreamingOutput]] = {artifact: deque() for artifact in ports.outputs}
        self._next_sequence = 0
        pipeline.create_session(session_id)
        try:
            self._set_controls({}, NO_ACTION)
        except BaseException:
            pipeline.close_session(session_id)
            raise

    @property
    def in_flight(self) -> int:
        """Requests made whose chunk is not out yet."""
        return len(self._requests)

    def apply(self, conditioning: Mapping[str, Any], events: tuple[Any, ...], action_id: Any, received_ns: int) -> None:
        """Take an action."""
        self._actions += 1
        applied = AppliedAction(self._actions, action_id, received_ns)
        self._player.apply(conditioning, events, applied)
        self._set_controls(conditioning, applied)

    def next_request(self) -> tuple[int, Mapping[str, object]]:
        """The next sequence and its inputs. It counts as in flight."""
        request = ChunkRequest(self._session_id, self._next_sequence, self._player)
        inputs = mapped(self._ports.to_inputs, request, "the mapping to inputs")
        self._next_sequence += 1
        self._requests.append(request)
        return request.sequence_id, inputs

    def take(self, output: StreamingOutput) -> FinishedChunk | None:
        """Take what left the pipeline; the chunk, once all outputs of its sequence are there."""
        self._gathered[output.artifact].append(output)
        if not all(self._gathered.values()):
            return None
        parts = [line.popleft() for line in self._gathered.values()]
        request = self._requests.popleft()
        action = self._action_of(request, parts)
        begin = request.pushed_ns if request.sealed is None else request.sealed.at_ns
        return FinishedChunk(
            parts[0].value if len(parts) == 1 else {part.artifact: part.value for part in parts},
            action.action_id,
            Stamps(
                action_received=action.received_ns,
                step_begin=max(begin, action.received_ns or 0),
                step_end=round(max(part.emitted_at for part in parts) * 1e9),
            ),
        )

    def _action_of(self, request: ChunkRequest, parts: list[StreamingOutput]) -> AppliedAction:
        """The newest action that every part of the chunk shows."""
        actions = [] if request.sealed is None else [request.sealed.applied]
        for part in parts:
            action = self._history.action_of(part.controls)
            if action is not None:
                actions.append(action)
        return min(actions, key=lambda action: action.number, default=NO_ACTION)

    def _set_controls(self, conditioning: Mapping[str, Any], applied: AppliedAction) -> None:
        """Set what has changed, or all when nothing has, so that a chunk can tell of every action."""
        values = mapped(self._ports.to_controls, conditioning, "the mapping to controls")
        changed = {
            name: value
            for name, value in values.items()
            if name not in self._values or not same_value(value, self._values[name])
        }
        self._values.update(changed)
        versions = {
            name: self._pipeline.set_control(self._session_id, name, value)
            for name, value in (changed or values).items()
        }
        self._history.applied(applied, versions)


def mapped(mapping: Callable[[T], Mapping[str, object]], given: T, what: str) -> Mapping[str, object]:
    """What the author's function makes of it. Nothing that it raises ends more than its session."""
    try:
        return mapping(given)
    except BaseException as error:
        reraise_interrupt(error)
        found = contained(error, what)
        if found is error:
            raise
        raise found from error
