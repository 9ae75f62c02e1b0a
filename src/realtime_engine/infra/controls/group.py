"""The controllers of one session: each has its own devices, numbering and holds; together they have one window."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

from ...core.clock import MONOTONIC, Clock
from ...core.errors import RealtimeEngineError
from ..frame import ActionSeqs
from .declaration import Controls
from .fields import FieldValues, StagedFields
from .merging import merge_windows
from .parsing import Control, MessageFault, MessageRefused, parse_valid_part
from .schema import ControlsMessage, PresentedMessage
from .state import AppliedMessage, ControlState, Reply
from .window import ControlWindow

__all__ = ["MAX_CONTROLLERS", "ControlGroup", "TooManyControllers"]

MAX_CONTROLLERS = 16


class TooManyControllers(RealtimeEngineError):
    """The session has as many controllers as it may have."""


def _ignore_release(slot: int) -> None:
    """The default of :attr:`ControlGroup.on_release`."""


class ControlGroup:
    """The devices of all controllers of a session, and the fields that they share. Not thread-safe.

    Slot 0 is taken from the start. A session that one client controls behaves as its :class:`ControlState`.

    Args:
        controls: the demo's declaration, with the policy by which the devices are merged.
        clock: clock of the hold timeouts.
        drawn: values that default factories drew in another run, see :attr:`drawn_fields`.

    Attributes:
        on_release: called with the slot of a controller whose holds are released without a message that requests it.
        changes: how many messages have changed a device or a field, or had edges.
    """

    def __init__(self, controls: Controls, clock: Clock = MONOTONIC, *, drawn: Mapping[str, Any] | None = None) -> None:
        self.on_release: Callable[[int], object] = _ignore_release
        self.changes = 0
        self._controls = controls
        self._clock = clock
        self._fields = FieldValues(controls.fields, drawn)
        self._states: dict[int, ControlState] = {}
        self._by_change: list[int] = []  # slots, the one whose devices changed last at the end
        self._departed = (0.0, 0.0, 0.0, 0.0)  # travel of the pointers and wheels of controllers that have left
        self.join()

    @property
    def slots(self) -> tuple[int, ...]:
        """The slots that are taken, in order."""
        return tuple(sorted(self._states))

    @property
    def given_fields(self) -> Mapping[str, Any]:
        """Fields set by clients, as they were sent."""
        return self._fields.given

    @property
    def drawn_fields(self) -> Mapping[str, Any]:
        """Values drawn by default factories of the fields, as JSON values."""
        return self._fields.drawn

    @property
    def next_expiry_ns(self) -> int | None:
        """When the next hold timeout expires, in nanoseconds of the clock; ``None`` while nothing is held."""
        expiries = [state.next_expiry_ns for state in self._states.values()]
        return min((expiry for expiry in expiries if expiry is not None), default=None)

    def join(self, slot: int | None = None) -> int:
        """Add a controller; returns its slot, by default the first that is free.

        Raises:
            TooManyControllers: the session has as many controllers as it may have.
            ValueError: the slot is taken.
        """
        if len(self._states) >= MAX_CONTROLLERS:
            raise TooManyControllers(f"at most {MAX_CONTROLLERS} clients may control a session")
        if slot is None:
            slot = next(free for free in range(MAX_CONTROLLERS) if free not in self._states)
        if slot in self._states:
            raise ValueError(f"slot {slot} is taken")
        state = ControlState(self._controls, self._clock, fields=self._fields, slot=slot)
        state.on_release = lambda: self.on_release(slot)
        self._states[slot] = state
        self._by_change.insert(0, slot)
        return slot

    def leave(self, slot: int) -> None:
        """Remove a controller. Its holds end without edges; :meth:`release` them first."""
        window = self._states.pop(slot).window()
        self._by_change.remove(slot)
        self._fields.forget(slot)
        self._departed = _added(self._departed, _travel(window))

    def receive(self, message: str | Mapping[str, Any], slot: int = 0) -> list[Reply]:
        """Process a message of a controller and return the replies. Never raises; what is refused has no effect."""
        try:
            parsed, faults = parse_valid_part(message)
        except MessageRefused as refusal:
            return refusal.replies()
        return [] if isinstance(parsed, PresentedMessage) else self.apply_valid_part(parsed, faults, slot).replies

    def apply(self, message: Control, slot: int = 0) -> list[Reply]:
        """Process a parsed message of a controller and return the replies.

        Raises:
            MessageRefused: a field is refused; the message has no effect.
        """
        before = self._states[slot].devices
        replies = self._states[slot].apply(message)
        self._note_change(slot, before, message)
        return replies

    def apply_valid_part(self, message: Control, faults: Iterable[MessageFault] = (), slot: int = 0) -> AppliedMessage:
        """As :meth:`ControlState.apply_valid_part`, for the controller in ``slot``."""
        before = self._states[slot].devices
        applied = self._states[slot].apply_valid_part(message, faults)
        self._note_change(slot, before, applied.message)
        return applied

    def update_fields(self, values: Mapping[str, Any]) -> list[Reply]:
        """As :meth:`ControlState.update_fields`."""
        return self._any.update_fields(values)

    def stage_fields(self, values: Mapping[str, Any]) -> StagedFields:
        """As :meth:`ControlState.stage_fields`."""
        return self._any.stage_fields(values)

    def window(self, staged: StagedFields | None = None) -> ControlWindow:
        """The merged state of all controllers; with ``staged``, its fields are those of the staged update."""
        windows = [self._states[slot].window(staged) for slot in self.slots]
        newest = self._newest()
        merged = next(window for window in windows if window.slot == newest)
        if len(windows) > 1 or self._controls.merge == "all":
            merged = merge_windows(windows, merged)
        return self._completed(merged, windows)

    def take_edges(self) -> tuple[dict[str, Any], ...]:
        """Edges since the last call, as :meth:`ControlState.take_edges`, one controller after another.

        Those of another controller than the one in slot 0 have its slot as ``controller``.
        """
        edges: list[dict[str, Any]] = []
        for slot in self.slots:
            own = self._states[slot].take_edges()
            edges += own if slot == 0 else ({**edge, "controller": slot} for edge in own)
        return tuple(edges)

    def release(self, slot: int) -> bool:
        """Release what a controller holds and generate the edges; false if it holds nothing."""
        if self._states[slot].next_expiry_ns is None:
            return False
        self._states[slot].release_all()
        return True

    @property
    def _any(self) -> ControlState:
        return next(iter(self._states.values()))

    def _note_change(self, slot: int, before: tuple[object, ...], message: Control) -> None:
        has_changed = self._states[slot].devices != before
        if has_changed:
            self._by_change.remove(slot)
            self._by_change.append(slot)
        if has_changed or (isinstance(message, ControlsMessage) and (message.edges or message.fields)):
            self.changes += 1

    def _newest(self) -> int:
        """The controller whose devices changed last, among those that hold something if any does."""
        holding = [slot for slot in self._by_change if self._states[slot].next_expiry_ns is not None]
        return (holding or self._by_change)[-1]

    def _completed(self, window: ControlWindow, windows: Iterable[ControlWindow]) -> ControlWindow:
        """The window with the movements and the action id of all controllers."""
        if self._states.keys() == {0} and not any(self._departed):
            return window
        total = self._departed
        for each in windows:
            total = _added(total, _travel(each))
        seqs = {slot: state.action_id for slot, state in self._states.items() if state.action_id is not None}
        return replace(
            window,
            pointer=replace(window.pointer, travel_x=total[0], travel_y=total[1]),
            wheel=replace(window.wheel, travel_x=total[2], travel_y=total[3]),
            action_id=window.action_id if self._states.keys() == {0} else ActionSeqs(seqs),
        )


_Travel = tuple[float, float, float, float]


def _travel(window: ControlWindow) -> _Travel:
    pointer, wheel = window.pointer, window.wheel
    return pointer.travel_x, pointer.travel_y, wheel.travel_x, wheel.travel_y


def _added(first: _Travel, second: _Travel) -> _Travel:
    return first[0] + second[0], first[1] + second[1], first[2] + second[2], first[3] + second[3]
