"""A rollout of a served session in its pipeline: what it is asked for, and what comes out."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from ..clock import MONOTONIC, Clock
from ..errors import reraise_interrupt
from ..messages import Stamps
from ..values import same_value
from .errors import contained

if TYPE_CHECKING:
    from .orchestrator import StreamingPipelineOrchestrator
    from .types import StreamingOutput

__all__ = ["AppliedAction", "ChunkRequest", "Controls", "FinishedChunk", "Inputs", "Ports", "Rollout", "SessionInput"]

_MAX_EVENTS = 4096
_MAX_VERSIONS = 4096

T = TypeVar("T")


class AppliedAction(NamedTuple):
    """An action by its number in its epoch, from 1; 0 is none."""

    number: int = 0
    action_id: Any = None
    received_ns: int | None = None


NO_ACTION = AppliedAction()


class SealedInput(NamedTuple):
    """The input of one chunk, and when it was read."""

    conditioning: dict[str, Any]
    events: tuple[Any, ...]
    applied: AppliedAction
    at_ns: int


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
        self._conditioning: Mapping[str, Any] = {}
        self._events: deque[Any] = deque(maxlen=_MAX_EVENTS)
        self._applied = NO_ACTION

    @property
    def conditioning(self) -> Mapping[str, Any]:
        """The newest conditioning."""
        return self._conditioning

    @property
    def applied(self) -> AppliedAction:
        """The newest action."""
        return self._applied

    def apply(self, conditioning: Mapping[str, Any], events: Collection[Any], applied: AppliedAction) -> None:
        """Replace the conditioning and append the events; of more than 4096 the oldest are dropped."""
        with self._lock:
            self._conditioning = conditioning
            self._events.extend(events)
            self._applied = applied

    def read(self) -> SealedInput:
        """The conditioning now, and the events since the last call."""
        with self._lock:
            events = tuple(self._events)
            self._events.clear()
            return SealedInput(dict(self._conditioning), events, self._applied, self.clock.now_ns())


class ChunkRequest:
    """An input of the pipeline for one sequence: the session's context, and its newest conditioning and events.

    Conditioning and events are sealed when a stage first reads either of them, so they are as new as they can be, and
    each event is in exactly one request. Pickling seals too.

    Attributes:
        session_id: the session.
        sequence_id: number of the chunk in this rollout, from 0.
        context: what the session was attached or reset with.
        pushed_ns: when the engine handed it to the pipeline, in monotonic nanoseconds.
    """

    def __init__(self, session_id: str, sequence_id: int, session_input: SessionInput) -> None:
        self.session_id = session_id
        self.sequence_id = sequence_id
        self.context = session_input.context
        self.pushed_ns = session_input.clock.now_ns()
        self._input: SessionInput | None = session_input
        self._lock = threading.Lock()
        self._sealed: SealedInput | None = None

    @property
    def conditioning(self) -> Mapping[str, Any]:
        """The newest at the moment of the first read."""
        return self._seal().conditioning

    @property
    def events(self) -> tuple[Any, ...]:
        """The events since the request that was sealed before this one, oldest first."""
        return self._seal().events

    @property
    def sealed(self) -> SealedInput | None:
        """What was read; ``None`` while no stage has read it."""
        return self._sealed

    def _seal(self) -> SealedInput:
        with self._lock:
            if self._sealed is None:
                assert self._input is not None
                self._sealed = self._input.read()
            return self._sealed

    def __getstate__(self) -> dict[str, Any]:
        self._seal()
        return {**self.__dict__, "_lock": None, "_input": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _lock=threading.Lock())


class ControlHistory:
    """The actions that the versions of the controls stand for.

    A control that an action leaves unchanged keeps its version, which then stands for that action too.
    """

    def __init__(self, names: Collection[str]) -> None:
        self._versions: dict[str, deque[tuple[int, AppliedAction]]] = {
            name: deque(((0, NO_ACTION),), maxlen=_MAX_VERSIONS) for name in names
        }

    def applied(self, action: AppliedAction, versions: Mapping[str, int]) -> None:
        """An action has set these controls to these versions, and left the others."""
        for name, line in self._versions.items():
            version = versions.get(name)
            if version is None:
                line[-1] = (line[-1][0], action)
            else:
                line.append((version, action))

    def action_of(self, versions: Mapping[str, int]) -> AppliedAction | None:
        """The newest action that all these versions show; ``None`` without controls. Versions must not go back.

        For a version older than the newest 4096, no action is known.
        """
        actions = [self._action(self._versions[name], version) for name, version in versions.items()]
        return min(actions, key=lambda action: action.number, default=None)

    @staticmethod
    def _action(line: deque[tuple[int, AppliedAction]], version: int) -> AppliedAction:
        while len(line) > 1 and line[1][0] <= version:
            line.popleft()
        oldest, action = line[0]
        return action if oldest <= version else NO_ACTION


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
        self._history = ControlHistory(ports.controls)
        self._values: dict[str, object] = {}
        self._requests: deque[ChunkRequest] = deque()
        self._gathered: dict[str, deque[StreamingOutput]] = {artifact: deque() for artifact in ports.outputs}
        self._next_sequence = 0
        pipeline.create_session(session_id, final_sequence_id)
        try:
            self._set_controls(self._controls_for(session_input.conditioning), session_input.applied)
        except BaseException:
            pipeline.close_session(session_id)
            raise

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
        self._set_controls(values, applied)

    def next_request(self) -> tuple[int, Mapping[str, object]]:
        """The next sequence and its inputs, which counts as in flight. When the mapping raises, nothing has changed."""
        request = ChunkRequest(self._session_id, self._next_sequence, self.input)
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
        action = self._action_of(request, parts)
        shows_new_action = action.number > self.input.shown
        self.input.shown = max(action.number, self.input.shown)
        self.ended = any(part.last for part in parts)
        begin_ns = request.pushed_ns if request.sealed is None else request.sealed.at_ns
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

    def _action_of(self, request: ChunkRequest, parts: list[StreamingOutput]) -> AppliedAction:
        """The newest action that every part of the chunk shows."""
        actions = [] if request.sealed is None else [request.sealed.applied]
        for part in parts:
            action = self._history.action_of(part.controls)
            if action is not None:
                actions.append(action)
        return min(actions, key=lambda action: action.number, default=NO_ACTION)

    def _controls_for(self, conditioning: Mapping[str, Any]) -> Mapping[str, object]:
        values = mapped(self._ports.to_controls, conditioning, "the mapping to controls")
        unknown = sorted(values.keys() - self._ports.controls)
        if unknown:
            raise ValueError(f"the mapping to controls gives {unknown[0]!r}, expected {sorted(self._ports.controls)}")
        return values

    def _set_controls(self, values: Mapping[str, object], applied: AppliedAction) -> None:
        """Set what has changed, or all when nothing has, so that a chunk can show every action."""
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
    """The result of an author's function, which must be a mapping. What it raises ends no more than its session."""
    try:
        return dict(mapping(given))
    except BaseException as error:
        reraise_interrupt(error)
        found = contained(error, what)
        if found is error:
            raise
        raise found from error
