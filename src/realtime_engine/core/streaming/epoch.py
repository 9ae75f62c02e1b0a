"""One epoch of a served session inside its pipeline."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from ..errors import reraise_interrupt
from ..messages import Stamps
from ..values import same_value
from .errors import contained

if TYPE_CHECKING:
    from .orchestrator import StreamingPipelineOrchestrator
    from .types import StreamingOutput

__all__ = [
    "AppliedAction",
    "ChunkRequest",
    "Controls",
    "FinishedChunk",
    "Inputs",
    "SessionEpoch",
    "Ports",
    "T",
    "mapped",
]


_MAX_EVENTS = 4096
_MAX_VERSIONS = 4096


class AppliedAction(NamedTuple):
    """An action by its number in this epoch, from 1; 0 is none."""

    number: int = 0
    action_id: Any = None
    received_ns: int | None = None


NO_ACTION = AppliedAction()


class PlayerInput:
    """The newest conditioning of a session and its edges: written by the engine, taken by stages on their threads."""

    def __init__(self, context: Mapping[str, Any]) -> None:
        self.context = context
        self._lock = threading.Lock()
        self._conditioning: Mapping[str, Any] = {}
        self._events: deque[Any] = deque(maxlen=_MAX_EVENTS)
        self._applied = NO_ACTION

    def apply(self, conditioning: Mapping[str, Any], events: Collection[Any], applied: AppliedAction) -> None:
        """Newest state wins; edges queue up, the newest 4096."""
        with self._lock:
            self._conditioning = conditioning
            self._events.extend(events)
            self._applied = applied

    def take(self) -> Sealed:
        """What holds now, and the edges since the last call."""
        with self._lock:
            events = tuple(self._events)
            self._events.clear()
            return Sealed(dict(self._conditioning), events, self._applied, time.monotonic_ns())


class Sealed(NamedTuple):
    """What one chunk has taken."""

    conditioning: dict[str, Any]
    events: tuple[Any, ...]
    applied: AppliedAction
    at_ns: int


class ChunkRequest:
    """An input of the pipeline for one sequence: what the session began with, and what its player wants now.

    Conditioning and events are sealed when a stage first reads either of them, so they are as new as they can be, and
    each event is in exactly one request. Pickling seals too.

    Attributes:
        session_id: whose.
        sequence_id: which chunk of this epoch, from 0.
        context: what the session began with.
        pushed_ns: when the engine handed it to the pipeline, in monotonic nanoseconds.
    """

    def __init__(self, session_id: str, sequence_id: int, player: PlayerInput) -> None:
        self.session_id = session_id
        self.sequence_id = sequence_id
        self.context = player.context
        self.pushed_ns = time.monotonic_ns()
        self._player: PlayerInput | None = player
        self._lock = threading.Lock()
        self._sealed: Sealed | None = None

    @property
    def conditioning(self) -> Mapping[str, Any]:
        """The newest at the moment of the first look."""
        return self._seal().conditioning

    @property
    def events(self) -> tuple[Any, ...]:
        """The edges since the request that was sealed before this one, oldest first."""
        return self._seal().events

    @property
    def sealed(self) -> Sealed | None:
        """What a stage has taken; ``None`` while no stage has looked."""
        return self._sealed

    def _seal(self) -> Sealed:
        with self._lock:
            if self._sealed is None:
                assert self._player is not None
                self._sealed = self._player.take()
            return self._sealed

    def __getstate__(self) -> dict[str, Any]:
        self._seal()
        return {**self.__dict__, "_lock": None, "_player": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _lock=threading.Lock())


class ControlHistory:
    """Which action the versions of the controls stand for.

    A control that an action leaves as it is keeps its version, which then stands for that action too.
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

        A version that is older than the 4096 that are remembered shows none that is known.
        """
        actions = [self._action(self._versions[name], version) for name, version in versions.items()]
        return min(actions, key=lambda action: action.number, default=None)

    @staticmethod
    def _action(line: deque[tuple[int, AppliedAction]], version: int) -> AppliedAction:
        while len(line) > 1 and line[1][0] <= version:
            line.popleft()
        oldest, action = line[0]
        return action if oldest <= version else NO_ACTION


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


class SessionEpoch:
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
