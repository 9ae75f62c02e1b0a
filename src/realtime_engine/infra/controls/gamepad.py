"""Sticks, on a gamepad or on the screen."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

_STICKS = ((0, 1), (2, 3))  # axes of the W3C standard gamepad that belong to one stick


@dataclass(frozen=True)
class GamepadState:
    """A gamepad in the W3C standard mapping.

    Attributes:
        axes: -1 to 1, right and down positive, dead zone taken out.
        buttons: 0 (free) to 1 (pressed).
    """

    axes: tuple[float, ...] = ()
    buttons: tuple[float, ...] = ()

    def axis(self, index: int) -> float:
        """0 for an axis that this gamepad does not have."""
        return self.axes[index] if 0 <= index < len(self.axes) else 0.0

    def pressed(self, index: int) -> bool:
        """Whether a button is pressed at least half way; false for one that this gamepad does not have."""
        return 0 <= index < len(self.buttons) and self.buttons[index] >= 0.5


def clamp(value: float, least: float, most: float) -> float:
    return min(max(value, least), most)


def without_dead_zone(x: float, y: float, dead_zone: float) -> tuple[float, float]:
    """A stick's deflection, radially rescaled: 0 inside ``dead_zone``, 1 at the rim and beyond, its direction kept."""
    length = math.hypot(x, y)
    if length <= dead_zone or length == 0.0:
        return 0.0, 0.0
    scale = min((length - dead_zone) / (1.0 - dead_zone), 1.0) / length
    return x * scale, y * scale


def read_gamepad(axes: Sequence[float], buttons: Sequence[float], dead_zone: float) -> GamepadState:
    """A gamepad as its client reports it, clamped; axes 0 and 1, and 2 and 3, share a radial dead zone."""
    values = [clamp(value, -1.0, 1.0) for value in axes]
    paired = [pair for pair in _STICKS if pair[1] < len(values)]
    for x, y in paired:
        values[x], values[y] = without_dead_zone(values[x], values[y], dead_zone)
    for index in range(2 * len(paired), len(values)):
        values[index], _ = without_dead_zone(values[index], 0.0, dead_zone)
    return GamepadState(tuple(values), tuple(clamp(value, 0.0, 1.0) for value in buttons))
