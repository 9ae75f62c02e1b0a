"""The controls of a session, of which each sequence samples a consistent state."""

from __future__ import annotations

import threading
from collections.abc import Collection, Hashable, Mapping
from typing import NamedTuple

__all__ = ["ControlSnapshot", "ControlValue", "StreamingControls"]


class ControlValue(NamedTuple):
    """A value of a control, its version from 1 (0: not set), and when it was set in nanoseconds."""

    value: object = None
    version: int = 0
    set_ns: int = 0


class ControlSnapshot(NamedTuple):
    """The values of all controls at one moment.

    Attributes:
        values: control -> value.
        update: what the caller of the newest :meth:`StreamingControls.update` has named it.
    """

    values: Mapping[str, ControlValue]
    update: object = None


class StreamingControls:
    """The newest values of a session's controls. Thread-safe.

    The stages of one sequence sample controls at different times. An update may replace several controls. When it
    replaces something that a sequence has sampled already, the sequence keeps the state before it, also for controls
    that are sampled later. So each sequence sees a state that existed, and one that is as new as that allows.
    """

    def __init__(self, names: Collection[str]) -> None:
        self._lock = threading.Lock()
        self._newest = ControlSnapshot(dict.fromkeys(names, ControlValue()))
        self._sampled: dict[int, set[Hashable]] = {}  # sequence -> what it has sampled
        self._kept: dict[int, ControlSnapshot] = {}  # sequence -> the state that it keeps
        self._last: dict[int, ControlSnapshot] = {}  # sequence -> the state of its newest sample

    def set(self, values: Mapping[str, object], now_ns: int) -> ControlSnapshot:
        """Set controls, also for sequences that have sampled others.

        Returns:
            The state before.
        """
        with self._lock:
            return self._set(values, now_ns, self._newest.update)

    def update(
        self, values: Mapping[str, object], now_ns: int, update: object, replaces: Collection[Hashable]
    ) -> ControlSnapshot:
        """Set controls together.

        Args:
            values: control -> value.
            now_ns: the time in nanoseconds.
            update: a name for the update.
            replaces: what has changed: a sequence that has sampled one of these keeps the state before.

        Returns:
            The state before.
        """
        with self._lock:
            for sequence_id, sampled in self._sampled.items():
                if sequence_id not in self._kept and not sampled.isdisjoint(replaces):
                    self._kept[sequence_id] = self._newest
            return self._set(values, now_ns, update)

    def peek(self, sequence_id: int) -> ControlSnapshot:
        """The state that a sequence would sample now."""
        with self._lock:
            return self._kept.get(sequence_id, self._newest)

    def sample(self, sequence_id: int, names: Collection[Hashable]) -> ControlSnapshot:
        """The state that a sequence sees now, which uses ``names`` of it."""
        with self._lock:
            before = self._last.get(sequence_id)
            state = self._last[sequence_id] = self._kept.get(sequence_id, self._newest)
            self._sampled.setdefault(sequence_id, set()).update(names)
        del before  # outside the lock, because finalizers may run
        return state

    def finish(self, sequence_id: int) -> tuple[object, list[ControlSnapshot]]:
        """Forget the sequences up to this one, which sample nothing more.

        Returns:
            The newest update that ``sequence_id`` has seen, ``None`` if it has sampled nothing; and the states that are
            no longer used, for the caller to release.
        """
        if not self._sampled:
            return None, []
        with self._lock:
            last = self._last.get(sequence_id)
            unused: list[ControlSnapshot] = []
            for number in [number for number in self._sampled if number <= sequence_id]:
                del self._sampled[number]
                unused.append(self._last.pop(number))
                if number in self._kept:
                    unused.append(self._kept.pop(number))
        return None if last is None else last.update, unused

    def _set(self, values: Mapping[str, object], now_ns: int, update: object) -> ControlSnapshot:
        before = self._newest
        changed = {name: ControlValue(value, before.values[name].version + 1, now_ns) for name, value in values.items()}
        self._newest = ControlSnapshot({**before.values, **changed}, update)
        return before
