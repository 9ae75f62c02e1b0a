"""The mouse, the pen or the finger, and the wheel."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

PointerUse: TypeAlias = Literal["position", "lock"]
POINTER_USES: tuple[PointerUse, ...] = ("position", "lock")


@dataclass(frozen=True)
class PointerState:
    """Where the pointer is and how far it has gone.

    Attributes:
        x, y: place in the picture, 0 to 1 from its left and top edge.
        buttons: those held, as the bits of ``MouseEvent.buttons``: 1 primary, 2 secondary, 4 middle, 8 back,
            16 forward.
        travel_x, travel_y: sum of all ``pointer_move`` edges in CSS pixels, right and down positive. The difference of
            two windows is the way between them, and nothing is lost when a window is skipped.
    """

    x: float = 0.5
    y: float = 0.5
    buttons: int = 0
    travel_x: float = 0.0
    travel_y: float = 0.0

    def pressed(self, button: int) -> bool:
        """Whether a button is held, by its number in ``MouseEvent.button``: 0 primary, 1 middle, 2 secondary."""
        return button in held_buttons(self.buttons)


@dataclass(frozen=True)
class WheelState:
    """Sum of all ``wheel`` edges in CSS pixels, right and down positive."""

    travel_x: float = 0.0
    travel_y: float = 0.0


_BUTTON_OF_BIT = (0, 2, 1, 3, 4)  # the bits of MouseEvent.buttons count the secondary button before the middle one
MAX_BUTTONS = (1 << len(_BUTTON_OF_BIT)) - 1


def held_buttons(buttons: int) -> tuple[int, ...]:
    """Numbers (``MouseEvent.button``) of the bits that are set in ``MouseEvent.buttons``."""
    return tuple(number for bit, number in enumerate(_BUTTON_OF_BIT) if buttons >> bit & 1)
