"""What a player wants of the next chunk, and of which action a chunk tells."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

__all__ = ["AppliedAction", "ChunkRequest"]

_MOST_EVENTS = 4096
_MOST_VERSIONS = 4096


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
        self._events: deque[Any] = deque(maxlen=_MOST_EVENTS)
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
            name: deque(((0, NO_ACTION),), maxlen=_MOST_VERSIONS) for name in names
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
