"""A rollout of a served session in its pipeline: what it is asked for, and what comes out."""

from __future__ import annotations

import enum
import threading
from collections import deque
from collections.abc import Callable, Collection, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from ..clock import MONOTONIC, Clock
from ..errors import reraise_interrupt
from ..messages import Stamps
from ..values import same_value
from .controls import StreamingControls
from .errors import contained

if TYPE_CHECKING:
    from .orchestrator import StreamingPipelineOrchestrator
    from .types import StreamingOutput

__all__ = ["AppliedAction", "ChunkRequest", "Controls", "FinishedChunk", "Inputs", "Ports", "Rollout", "SessionInput"]

_MAX_EVENTS = 4096

T = TypeVar("T")


class AppliedAction(NamedTuple):
    """An action by its number in its epoch, from 1; 0 is none."""

    number: int = 0
    action_id: Any = None
    received_ns: int | None = None


NO_ACTION = AppliedAction()


class RequestPart(enum.Enum):
    """What a request samples besides controls."""

    CONDITIONING = enum.auto()
    EVENTS = enum.auto()


class RolloutInput(NamedTuple):
    """The conditioning after an action."""

    conditioning: Mapping[str, Any] = MappingProxyType({})
    applied: AppliedAction = NO_ACTION


class SessionInput:
    """Context, newest conditioning and pending events of one epoch of a session.

    Written by the engine, read by stages on their threads. It outlives a rollout that fails, so that the next one goes
    on with the same conditioning.

    Attributes:
        shown: number of the newest action that a chunk showed.
    """

    def __init__(self, context: Mapping[str, Any], clock: Clock = MONOTONIC) -> None:
        self.context = context
        self.clock = clock
        self.shown = 0
        self._lock = threading.Lock()
        self._state = RolloutInput()
        self._events: deque[tuple[int, Any]] = deque(maxlen=_MAX_EVENTS)  # each with the number of its action

    @property
    def state(self) -> RolloutInput:
        """The state after the newest action."""
        return self._state

    @property
    def conditioning(self) -> Mapping[str, Any]:
        """The newest conditioning."""
        return self._state.conditioning

    @property
    def applied(self) -> AppliedAction:
        """The newest action."""
        return self._state.applied

    def apply(self, conditioning: Mapping[str, Any], events: Collection[Any], applied: AppliedAction) -> None:
        """Replace the conditioning and append the events; of more than 4096 the oldest are dropped."""
        with self._lock:
            self._events.extend((applied.number, event) for event in events)
            self._state = RolloutInput(conditioning, applied)

    def take_events(self, number: int) -> tuple[Any, ...]:
        """Remove and return the events of the actions up to this one, oldest first."""
        events = []
        with self._lock:
            while self._events and self._events[0][0] <= number:
                events.append(self._events.popleft()[1])
        return tuple(events)


class ChunkRequest:
    """An input of the pipeline for one sequence: the session's context, and its newest conditioning and events.

    Each of conditioning and events is sealed when a stage first reads it, so it is as new as it can be, and each event
    is in exactly one request. Pickling seals both. When an action replaces a control, the conditioning or the events
    after a stage has read them for a sequence, nothing of that action is in the request of the sequence. A stage that
    gets a pickled request counts as a reader of the events only.

    Args:
        controls: the controls of its session in the pipeline; ``None`` for a request outside a pipeline.

    Attributes:
        session_id: the session.
        sequence_id: number of the chunk in this rollout, from 0.
        context: what the session was attached or reset with.
        pushed_ns: when the engine handed it to the pipeline, in monotonic nanoseconds.
        read_ns: when a stage first read it; ``None`` before.
    """

    def __init__(
        self,
        session_id: str,
        sequence_id: int,
        session_input: SessionInput,
        controls: StreamingControls | None = None,
    ) -> None:
        self.session_id = session_id
        self.sequence_id = sequence_id
        self.context = session_input.context
        self.pushed_ns = session_input.clock.now_ns()
        self.read_ns: int | None = None
        self._input: SessionInput | None = session_input
        self._controls = controls
        self._lock = threading.Lock()
        self._conditioning: dict[str, Any] | None = None
        self._events: tuple[Any, ...] | None = None

    @property
    def conditioning(self) -> Mapping[str, Any]:
        """The newest at the moment of the first read."""
        with self._lock:
            if self._conditioning is None:
                self._conditioning = dict(self._sample(RequestPart.CONDITIONING).conditioning)
            return self._conditioning

    @property
    def events(self) -> tuple[Any, ...]:
        """The events since the request whose events were read before, oldest first."""
        with self._lock:
            if self._events is None:
                state = self._sample(RequestPart.EVENTS)
                assert self._input is not None
                self._events = self._input.take_events(state.applied.number)
            return self._events

    def _sample(self, *parts: RequestPart) -> RolloutInput:
        assert self._input is not None
        if self.read_ns is None:
            self.read_ns = self._input.clock.now_ns()
        if self._controls is None:
            return self._input.state
        update = self._controls.sample(self.sequence_id, parts).update
        assert isinstance(update, RolloutInput)
        return update

    def __getstate__(self) -> dict[str, Any]:
        events = self.events
        with self._lock:
            if self._conditioning is None:
                self._conditioning = dict(self._sample().conditioning)
            sealed = {"_events": events, "_conditioning": self._conditioning}
        return {**self.__dict__, **sealed, "_lock": None, "_input": None, "_controls": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _lock=threading.Lock())


Controls = Callable[[Mapping[str, Any]], Mapping[str, object]]
Inputs = Callable[[ChunkRequest], Mapping[str, object]]


class Ports(NamedTuple):
    """Inputs, controls and outputs of a pipeline, and the author's mappings to them.

    Attributes:
        inputs: artifacts that it takes by sequence.
        controls: artifacts that it samples.
        outputs: artifacts that leave it.
        to_inputs: request -> input artifact -> value.
        to_controls: conditioning -> control -> value.
    """

    inputs: frozenset[str]
    controls: frozenset[str]
    outputs: frozenset[str]
    to_inputs: Inputs
    to_controls: Controls


class FinishedChunk(NamedTuple):
    """The outputs of one sequence.

    Attributes:
        shows_new_action: it is the first that shows its action.
        last: the rollout ends with it.
        stamps: without the moment at which the chunk is emitted.
    """

    output: object
    action_id: Any
    shows_new_action: bool
    last: bool
    stamps: Stamps


class Rollout:
    """Feeds one session of the pipeline from its seed on, and finds the action that each chunk shows.

    Used by one thread at a time.

    Args:
        final_sequence_id: its last sequence; ``None``: no limit.

    Attributes:
        input: what its requests read.
        ended: its last chunk is out.

    Raises:
        StreamingError: the pipeline does not take the session now.
        Exception: raised by the author's mapping to controls.
    """

    def __init__(
        self,
        pipeline: StreamingPipelineOrchestrator,
        ports: Ports,
        session_id: str,
        session_input: SessionInput,
        final_sequence_id: int | None = None,
    ) -> None:
        self.input = session_input
        self.ended = False
        self._pipeline = pipeline
        self._ports = ports
        self._session_id = session_id
        self._final = final_sequence_id
        self._values: dict[str, object] = {}
        self._requests: deque[ChunkRequest] = deque()
        self._gathered: dict[str, deque[StreamingOutput]] = {artifact: deque() for artifact in ports.outputs}
        self._next_sequence = 0
        values = self._controls_for(session_input.conditioning)  # first: the author's mapping may raise
        pipeline.create_session(session_id, final_sequence_id)
        self._controls = pipeline.session_controls(session_id)
        self._set_controls(values, ())

    @property
    def in_flight(self) -> int:
        """Requests whose chunk is still to come out."""
        return 0 if self.ended else len(self._requests)

    @property
    def complete(self) -> bool:
        """Whether its last sequence was requested."""
        return self._final is not None and self._next_sequence > self._final

    def apply(self, conditioning: Mapping[str, Any], events: tuple[Any, ...], action_id: Any, received_ns: int) -> None:
        """Apply an action; when the mapping to controls raises, nothing has changed."""
        values = self._controls_for(conditioning)
        applied = AppliedAction(self.input.applied.number + 1, action_id, received_ns)
        self.input.apply(conditioning, events, applied)
        self._set_controls(values, tuple(RequestPart) if events else (RequestPart.CONDITIONING,))

    def next_request(self) -> tuple[int, Mapping[str, object]]:
        """The next sequence and its inputs, which counts as in flight. When the mapping raises, nothing has changed."""
        request = ChunkRequest(self._session_id, self._next_sequence, self.input, self._controls)
        inputs = mapped(self._ports.to_inputs, request, "the mapping to inputs")
        if inputs.keys() != self._ports.inputs:
            raise ValueError(f"the mapping to inputs must give {sorted(self._ports.inputs)}, got {sorted(inputs)}")
        self._next_sequence += 1
        self._requests.append(request)
        return request.sequence_id, inputs

    def add_output(self, output: StreamingOutput) -> FinishedChunk | None:
        """Add what left the pipeline; the chunk, once all outputs of its sequence are there."""
        self._gathered[output.artifact].append(output)
        if not all(self._gathered.values()):
            return None
        parts = [line.popleft() for line in self._gathered.values()]
        request = self._requests.popleft()
        action = next((part.update.applied for part in parts if isinstance(part.update, RolloutInput)), NO_ACTION)
        shows_new_action = action.number > self.input.shown
        self.input.shown = max(action.number, self.input.shown)
        self.ended = any(part.last for part in parts)
        begin_ns = request.pushed_ns if request.read_ns is None else request.read_ns
        return FinishedChunk(
            parts[0].value if len(parts) == 1 else {part.artifact: part.value for part in parts},
            action.action_id,
            shows_new_action,
            self.ended,
            Stamps(
                action_received=action.received_ns,
                step_begin=max(begin_ns, action.received_ns or 0),
                step_end=max(part.emitted_ns for part in parts),
            ),
        )

    def _controls_for(self, conditioning: Mapping[str, Any]) -> Mapping[str, object]:
        values = mapped(self._ports.to_controls, conditioning, "the mapping to controls")
        unknown = sorted(values.keys() - self._ports.controls)
        if unknown:
            raise ValueError(f"the mapping to controls gives {unknown[0]!r}, expected {sorted(self._ports.controls)}")
        return values

    def _set_controls(self, values: Mapping[str, object], replaced: Collection[RequestPart]) -> None:
        """Set what has changed, or all when nothing has, as the newest action set them."""
        changed = {
            name: value
            for name, value in values.items()
            if name not in self._values or not same_value(value, self._values[name])
        }
        self._values.update(changed)
        self._pipeline.update_controls(
            self._session_id, changed or values, update=self.input.state, replaces=[*changed, *replaced]
        )


def mapped(mapping: Callable[[T], Mapping[str, object]], given: T, what: str) -> Mapping[str, object]:
    """The result of an author's function, which must be a mapping. What it raises ends no more than its session."""
    try:
        return dict(mapping(given))
    except BaseException as error:
        reraise_interrupt(error)
        found = contained(error, what)
        if found is error:
            raise
        raise found from error
