"""One client's input: its messages in, windows and edges out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any, TypeAlias

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
from .parsing import Control, MessageRefused, parse_message, plain_json
from .schema import ControlsMessage, Edge, EdgeLog, PingMessage, PresentedMessage, pong_message
from .window import ControlWindow

_HOLD_NS = round(HOLD_TIMEOUT_S * NS_PER_S)
_DEVICES = ("keys", "pointer", "sticks", "gamepad")
Reply: TypeAlias = dict[str, Any]


def _nothing() -> None:
    """What most states do when they let go."""


class ControlState:
    """What one client holds, as far as its messages tell.

    Each device and each field keeps the word of the message with the greatest ``seq``, in whatever order they arrive.
    After two seconds of silence everything held is released; it comes back with the next message that says it is held.
    Memory is bounded. For one thread at a time.

    Args:
        drawn: what default factories of the fields made in another run, as of :attr:`drawn_fields`.

    Attributes:
        on_release: called when everything held is let go of without a message that asks for it.
    """

    def __init__(self, controls: Controls, clock: Clock = MONOTONIC, *, drawn: Mapping[str, Any] | None = None) -> None:
        self.on_release: Callable[[], object] = _nothing
        self.controls = controls
        self._clock = clock
        self._heard_ns = clock.now_ns()
        self._action_id: int | None = None
        self._told_at = dict.fromkeys(_DEVICES, -1)  # device -> seq of the message whose word it keeps
        self._edges = EdgeLog()
        self._fields = FieldValues(controls.fields, drawn)
        self._keys: tuple[str, ...] = ()  # resolved, overruled ones included
        self._pointer = PointerState()
        self._wheel = WheelState()
        self._sticks: Mapping[str, tuple[float, float]] = MappingProxyType({})
        self._gamepad: GamepadState | None = None

    @property
    def given_fields(self) -> Mapping[str, Any]:
        """Fields that were set, as they came."""
        return self._fields.given

    @property
    def drawn_fields(self) -> Mapping[str, Any]:
        """What default factories made of fields, as JSON values."""
        return self._fields.drawn

    @property
    def dropped_edges(self) -> int:
        """Edges lost because more than 1024 of them waited."""
        return self._edges.dropped

    @property
    def next_expiry_ns(self) -> int | None:
        """When what is held is released unless the client is heard of; ``None`` when nothing is held."""
        holds = self._keys or self._pointer.buttons or self._sticks or self._gamepad is not None
        return self._heard_ns + _HOLD_NS if holds else None

    def receive(self, message: str | Mapping[str, Any]) -> list[Reply]:
        """Take a message in and return the replies to it. Never raises; a refused message changes nothing."""
        try:
            parsed = parse_message(message)
            return [] if isinstance(parsed, PresentedMessage) else self.apply(parsed)
        except MessageRefused as refusal:
            return refusal.replies()

    def apply(self, message: Control) -> list[Reply]:
        """As :meth:`receive`, for a message that was read already. Errors: :class:`MessageRefused`."""
        if isinstance(message, PingMessage):
            self._hear()
            return [pong_message(message, self._clock.now_ns())]
        if isinstance(message, ControlsMessage):
            self._take_controls(message)
        else:
            self._hear()
            self._release(self._news(_DEVICES, message.seq))
        self._action_id = message.seq if self._action_id is None else max(self._action_id, message.seq)
        return []

    def update_fields(self, values: Mapping[str, Any]) -> list[Reply]:
        """Set typed fields outside of a message, such as the context of a new session; returns error replies."""
        try:
            self._fields.accept(self.stage_fields(values))
        except MessageRefused as refusal:
            return refusal.replies()
        return []

    def stage_fields(self, values: Mapping[str, Any]) -> StagedFields:
        """As :meth:`update_fields`, but nothing changes yet. Errors: :class:`MessageRefused`."""
        return self._fields.stage(plain_json(values))

    def window(self, staged: StagedFields | None = None) -> ControlWindow:
        """What is held now, with the fields as they will be if ``staged`` is given."""
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
        )

    def take_edges(self) -> tuple[dict[str, Any], ...]:
        """Edges since the last call, oldest first, as plain dicts (docs/protocol.md), key aliases resolved.

        Those of a release that no message asked for by itself have ``None`` as ``seq`` and ``t``.
        """
        self._expire()
        return self._edges.take()

    def release_all(self) -> None:
        """Let go of everything held, with the edges of it: the client has lost the focus or the connection."""
        self._let_go()

    def _hear(self) -> None:
        """The client lives; what had expired before stays released."""
        self._expire()
        self._heard_ns = self._clock.now_ns()

    def _expire(self) -> None:
        expiry_ns = self.next_expiry_ns
        if expiry_ns is not None and self._clock.now_ns() >= expiry_ns:
            self._let_go()

    def _let_go(self) -> None:
        self._release(_DEVICES)
        self.on_release()

    def _take_controls(self, message: ControlsMessage) -> None:
        fields = self._fields.stage(message.fields, message.seq)  # refuses before anything has changed
        self._hear()
        self._fields.accept(fields)
        for edge in message.edges:
            self._take_edge(edge)
        told = [device for device in _DEVICES if device in message.model_fields_set]
        for device in self._news(told, message.seq):
            self._take_device(device, message)

    def _news(self, devices: Iterable[str], seq: int) -> list[str]:
        """Those of ``devices`` that no newer message has told of; from now on ``seq`` has."""
        news = [device for device in devices if seq > self._told_at[device]]
        self._told_at.update(dict.fromkeys(news, seq))
        return news

    def _take_device(self, device: str, message: ControlsMessage) -> None:
        declared, zone = self.controls, self.controls.dead_zone
        if device == "keys":
            self._keys = resolve_codes(message.keys, declared.codes, declared.aliases)
        elif device == "pointer" and declared.pointer is not None:
            told = message.pointer
            self._pointer = replace(self._pointer, x=told.x, y=told.y, buttons=told.buttons)
        elif device == "sticks":
            sticks = {name: xy for name, xy in message.sticks.items() if name in declared.sticks}
            self._sticks = MappingProxyType({name: without_dead_zone(x, y, zone) for name, (x, y) in sticks.items()})
        elif device == "gamepad" and declared.gamepad:
            pad = message.gamepad
            self._gamepad = None if pad is None else read_gamepad(pad.axes, pad.buttons, zone)

    def _take_edge(self, edge: Edge) -> None:
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
