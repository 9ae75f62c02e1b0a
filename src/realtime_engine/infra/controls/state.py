"""Control state of one client: consumes its messages, produces windows and edges."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any, NamedTuple, TypeAlias

from ...core.clock import MONOTONIC, NS_PER_S, Clock
from .declaration import HOLD_TIMEOUT_S, Controls
from .devices import (
    GamepadState,
    PointerState,
    WheelState,
    held_buttons,
    last_press_wins,
    read_gamepad,
    resolve_codes,
    without_dead_zone,
)
from .fields import FieldValues, StagedFields
from .parsing import Control, MessageFault, MessageRefused, error_replies, parse_valid_part, plain_json
from .schema import ControlsMessage, Edge, EdgeLog, PingMessage, PresentedMessage, pong_message
from .window import ControlWindow

_HOLD_NS = round(HOLD_TIMEOUT_S * NS_PER_S)
_DEVICES = ("keys", "pointer", "sticks", "gamepad")
Reply: TypeAlias = dict[str, Any]


class AppliedMessage(NamedTuple):
    """What a message came to.

    Attributes:
        message: the message without the parts that were refused.
        replies: the pong of a ping, and an error for each refused part.
    """

    message: Control
    replies: list[Reply]


def _ignore_release() -> None:
    """The default of :attr:`ControlState.on_release`."""


class ControlState:
    """The devices and fields of one client.

    Each device and each field keeps the value of the message with the greatest ``seq``, whatever the order of arrival.
    After two seconds without a message, all held controls are released until a message reports them as held again.
    Memory is bounded. Not thread-safe.

    Args:
        controls: the demo's declaration.
        clock: clock of the hold timeout.
        drawn: values that default factories drew in another run, see :attr:`drawn_fields`.
        fields: the fields, if several clients share them.
        slot: the slot of the client among those that control the session.

    Attributes:
        on_release: called when all held controls are released without a message that requests it.
    """

    def __init__(
        self,
        controls: Controls,
        clock: Clock = MONOTONIC,
        *,
        drawn: Mapping[str, Any] | None = None,
        fields: FieldValues | None = None,
        slot: int = 0,
    ) -> None:
        self.on_release: Callable[[], object] = _ignore_release
        self.controls = controls
        self._clock = clock
        self._last_message_ns = clock.now_ns()
        self._action_id: int | None = None
        self._seq_of = dict.fromkeys(_DEVICES, -1)  # device -> seq of the message that set it
        self._edges = EdgeLog()
        self._fields = FieldValues(controls.fields, drawn) if fields is None else fields
        self._slot = slot
        self._keys: tuple[str, ...] = ()  # aliases resolved, overruled keys included
        self._pointer = PointerState()
        self._wheel = WheelState()
        self._sticks: Mapping[str, tuple[float, float]] = MappingProxyType({})
        self._gamepad: GamepadState | None = None

    @property
    def given_fields(self) -> Mapping[str, Any]:
        """Fields set by the client, as they were sent."""
        return self._fields.given

    @property
    def drawn_fields(self) -> Mapping[str, Any]:
        """Values drawn by default factories of the fields, as JSON values."""
        return self._fields.drawn

    @property
    def slot(self) -> int:
        """The slot of the client among those that control the session."""
        return self._slot

    @property
    def action_id(self) -> int | None:
        """Sequence number of the newest message; ``None`` before the first."""
        return self._action_id

    @property
    def devices(self) -> tuple[object, ...]:
        """The state of all devices, which compares equal while nothing changes."""
        return self._keys, self._pointer, self._wheel, self._sticks, self._gamepad

    @property
    def dropped_edges(self) -> int:
        """Edges dropped because more than 1024 were pending."""
        return self._edges.dropped

    @property
    def next_expiry_ns(self) -> int | None:
        """When the hold timeout expires, in nanoseconds of the clock; ``None`` while nothing is held."""
        holds = self._keys or self._pointer.buttons or self._sticks or self._gamepad is not None
        return self._last_message_ns + _HOLD_NS if holds else None

    def receive(self, message: str | Mapping[str, Any]) -> list[Reply]:
        """Process a message and return the replies. Never raises; what is refused has no effect."""
        try:
            parsed, faults = parse_valid_part(message)
        except MessageRefused as refusal:
            return refusal.replies()
        return [] if isinstance(parsed, PresentedMessage) else self.apply_valid_part(parsed, faults).replies

    def apply(self, message: Control) -> list[Reply]:
        """Process a parsed message and return the replies.

        Raises:
            MessageRefused: a field is refused; the message has no effect.
        """
        if isinstance(message, PingMessage):
            self._extend_holds()
            return [pong_message(message, self._clock.now_ns())]
        if isinstance(message, ControlsMessage):
            self._apply_controls(message)
        else:
            self._extend_holds()
            self._release(self._claim_newer(_DEVICES, message.seq))
        self._action_id = message.seq if self._action_id is None else max(self._action_id, message.seq)
        return []

    def apply_valid_part(self, message: Control, faults: Iterable[MessageFault] = ()) -> AppliedMessage:
        """Process a parsed message without the fields that are refused.

        Args:
            message: the message.
            faults: of parts that were left out before; the replies report them too.
        """
        faults = list(faults)
        try:
            replies = self.apply(message)
        except MessageRefused:
            assert isinstance(message, ControlsMessage)
            message, refused = self._without_refused_fields(message)
            replies = self.apply(message)
            faults += refused
        return AppliedMessage(message, [*replies, *error_replies(faults, message.seq)])

    def update_fields(self, values: Mapping[str, Any]) -> list[Reply]:
        """Set typed fields without a message, as from the context of a new session; returns error replies."""
        try:
            self._fields.commit(self.stage_fields(values))
        except MessageRefused as refusal:
            return refusal.replies()
        return []

    def stage_fields(self, values: Mapping[str, Any]) -> StagedFields:
        """Validate an update of the fields without applying it.

        Raises:
            MessageRefused: a field is refused.
        """
        return self._fields.stage(plain_json(values))

    def window(self, staged: StagedFields | None = None) -> ControlWindow:
        """A snapshot of the current state; with ``staged``, its fields are those of the staged update."""
        self._expire()
        fields = self._fields.value if staged is None else staged.value
        return ControlWindow(
            controls=self.controls,
            keys=last_press_wins(self._keys, self.controls.opposing_groups),
            pointer=self._pointer,
            wheel=self._wheel,
            sticks=self._sticks,
            gamepad=self._gamepad,
            fields=None if fields is None else fields.model_copy(deep=True),
            action_id=self._action_id,
            slot=self._slot,
        )

    def take_edges(self) -> tuple[dict[str, Any], ...]:
        """Edges since the last call, oldest first, as plain dicts (docs/protocol.md) with key aliases resolved.

        Edges generated by a release have ``None`` as ``seq`` and ``t``.
        """
        self._expire()
        return self._edges.drain()

    def release_all(self) -> None:
        """Release all held controls and generate their edges: the client lost the focus or the connection."""
        self._release(_DEVICES)
        self.on_release()

    def _extend_holds(self) -> None:
        """Restart the hold timeout. Controls whose hold has expired stay released."""
        self._expire()
        self._last_message_ns = self._clock.now_ns()

    def _expire(self) -> None:
        expiry_ns = self.next_expiry_ns
        if expiry_ns is not None and self._clock.now_ns() >= expiry_ns:
            self.release_all()

    def _apply_controls(self, message: ControlsMessage) -> None:
        # first, so that a refused message has no effect
        fields = self._fields.stage(message.fields, message.seq, self._slot)
        self._extend_holds()
        self._fields.commit(fields)
        for edge in message.edges:
            self._apply_edge(edge)
        reported = [device for device in _DEVICES if device in message.model_fields_set]
        for device in self._claim_newer(reported, message.seq):
            self._apply_device(device, message)

    def _without_refused_fields(self, message: ControlsMessage) -> tuple[ControlsMessage, list[MessageFault]]:
        staged, faults = self._fields.stage_valid_part(message.fields, message.seq, self._slot)
        return message.model_copy(update={"fields": staged.given}), faults

    def _claim_newer(self, devices: Iterable[str], seq: int) -> list[str]:
        """Those of ``devices`` whose state is older than ``seq``; they are marked as set by ``seq``."""
        newer = [device for device in devices if seq > self._seq_of[device]]
        self._seq_of.update(dict.fromkeys(newer, seq))
        return newer

    def _apply_device(self, device: str, message: ControlsMessage) -> None:
        declared, zone = self.controls, self.controls.dead_zone
        if device == "keys":
            self._keys = resolve_codes(message.keys, declared.codes, declared.aliases)
        elif device == "pointer" and declared.pointer is not None:
            pointer = message.pointer
            self._pointer = replace(self._pointer, x=pointer.x, y=pointer.y, buttons=pointer.buttons)
        elif device == "sticks":
            sticks = {name: xy for name, xy in message.sticks.items() if name in declared.sticks}
            self._sticks = MappingProxyType({name: without_dead_zone(x, y, zone) for name, (x, y) in sticks.items()})
        elif device == "gamepad" and declared.gamepad:
            pad = message.gamepad
            self._gamepad = None if pad is None else read_gamepad(pad.axes, pad.buttons, zone)

    def _apply_edge(self, edge: Edge) -> None:
        plain = self._declared_edge(edge.model_dump())
        if plain is None or not self._edges.add(plain):
            return
        if edge.kind == "pointer_move":
            x, y = self._pointer.travel_x + edge.dx, self._pointer.travel_y + edge.dy
            self._pointer = replace(self._pointer, travel_x=x, travel_y=y)
        elif edge.kind == "wheel":
            self._wheel = WheelState(self._wheel.travel_x + edge.dx, self._wheel.travel_y + edge.dy)

    def _declared_edge(self, edge: dict[str, Any]) -> dict[str, Any] | None:
        """The edge with its key resolved; ``None`` if the demo does not read it."""
        if "code" in edge:
            code = self.controls.aliases.get(edge["code"], edge["code"])
            return {**edge, "code": code} if code in self.controls.codes else None
        reads = self.controls.wheel if edge["kind"] == "wheel" else self.controls.pointer is not None
        return edge if reads else None

    def _release(self, devices: Iterable[str]) -> None:
        if "keys" in devices:
            for code in self._keys:
                self._edges.add_own({"kind": "key_up", "code": code})
            self._keys = ()
        if "pointer" in devices:
            for button in held_buttons(self._pointer.buttons):
                self._edges.add_own({"kind": "button_up", "button": button})
            self._pointer = replace(self._pointer, buttons=0)
        if "sticks" in devices:
            self._sticks = MappingProxyType({})
        if "gamepad" in devices:
            self._gamepad = None
