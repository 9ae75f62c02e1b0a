"""A snapshot of the controls of one client."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from pydantic import BaseModel

from ..frame import ActionSeqs
from ..video_input import VideoWindow
from .declaration import Axis, Controls, did_you_mean
from .devices import GamepadState, PointerState, WheelState, clamp

_CENTER = (0.0, 0.0)


@dataclass(frozen=True)
class ControlWindow:
    """A snapshot of one client's controls, from which a demo makes the conditioning.

    Attributes:
        controls: the demo's declaration.
        keys: effective held keys, oldest press first: aliases are resolved, overruled keys are left out.
        pointer: state of the pointer.
        wheel: state of the wheel.
        sticks: touch stick -> deflection (x, y) of length at most 1, right and down positive, after the dead zone.
        gamepad: state of the gamepad; ``None`` without one.
        fields: the typed fields, an instance of ``controls.fields``; ``None`` without fields.
        action_id: sequence number of the client's newest message, ``None`` before the first; those of all clients if
            several control the session.
        video: frames received from the client; ``None`` if the demo takes no video.
        controllers: the windows of all clients that control the session, by slot; the one who has created it starts
            in slot 0. Empty while one client controls the session, unless ``controls.merge`` is ``"all"``.
        slot: the slot of the client whose window it is.
    """

    controls: Controls
    keys: tuple[str, ...] = ()
    pointer: PointerState = PointerState()
    wheel: WheelState = WheelState()
    sticks: Mapping[str, tuple[float, float]] = field(default_factory=lambda: MappingProxyType({}))
    gamepad: GamepadState | None = None
    fields: BaseModel | None = None
    action_id: int | ActionSeqs | None = None
    video: VideoWindow | None = None
    controllers: tuple[ControlWindow, ...] = ()
    slot: int = 0

    @property
    def field_values(self) -> dict[str, Any]:
        """``fields`` as a dict, defaults included; empty without fields."""
        return {} if self.fields is None else self.fields.model_dump()

    def held(self, code: str) -> bool:
        """Whether a key is held and not overruled. ``code`` is a declared key or an alias of one.

        Raises:
            ValueError: the key is not declared.
        """
        return self._resolve(code) in self.keys

    def axis(self, negative: str, positive: str | None = None) -> float:
        """The sum of keys, touch stick and gamepad, clamped to -1 to 1.

        ``axis("forward")`` names a declared :class:`Axis`. ``axis("KeyS", "KeyW")`` names two keys; if an axis with
        these keys is declared, its stick and gamepad count too.

        Raises:
            ValueError: the axis or a key is not declared.
        """
        if self.controllers and self.controls.merge == "sum":
            return clamp(sum(window.axis(negative, positive) for window in self.controllers), -1.0, 1.0)
        axis = self._named(negative) if positive is None else self._between(negative, positive)
        value = sum(sign for sign, code in zip((-1.0, 1.0), axis.keys, strict=False) if code in self.keys)
        analog = self._stick(axis) + self._gamepad(axis)
        return clamp(value + (-analog if axis.invert else analog), -1.0, 1.0)

    def _resolve(self, code: str) -> str:
        resolved = self.controls.aliases.get(code, code)
        self.controls.check_declared("held", resolved)
        return resolved

    def _named(self, name: str) -> Axis:
        for axis in self.controls.axes:
            if axis.name == name:
                return axis
        known = [axis.name for axis in self.controls.axes]
        raise ValueError(f"axis {name!r} is not declared in axes{did_you_mean(name, known)}")

    def _between(self, negative: str, positive: str) -> Axis:
        keys = (self._resolve(negative), self._resolve(positive))
        declared = (axis for axis in self.controls.axes if axis.keys == keys)
        return next(declared, None) or Axis("keys", *keys)

    def _stick(self, axis: Axis) -> float:
        if axis.stick is None:
            return 0.0
        name, direction = axis.stick
        return self.sticks.get(name, _CENTER)["xy".index(direction)]

    def _gamepad(self, axis: Axis) -> float:
        return 0.0 if axis.gamepad is None or self.gamepad is None else self.gamepad.axis(axis.gamepad)
