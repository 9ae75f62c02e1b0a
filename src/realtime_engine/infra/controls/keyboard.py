"""Keys by their physical place, and which of those held at once count."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from .keycodes import check_code

CODE_PATTERN = r"^[A-Za-z0-9]{1,32}$"
ARROWS_AS_WASD: Mapping[str, str] = MappingProxyType(
    {"ArrowUp": "KeyW", "ArrowLeft": "KeyA", "ArrowDown": "KeyS", "ArrowRight": "KeyD"}
)


@dataclass(frozen=True)
class KeyBinding:
    """A key that a demo reads, and its line in the legend.

    Attributes:
        code: the physical key, as ``KeyboardEvent.code`` of the W3C UI Events specification names it: ``KeyW``
            is the key left of ``KeyE`` on every layout.
        label: what the key does, for a person.
        group: keys of one group stand together in the legend.

    Raises:
        ValueError: naming the field.
    """

    code: str
    label: str
    group: str = ""

    def __post_init__(self) -> None:
        check_code("code", self.code)
        for name in ("label", "group"):
            value = getattr(self, name)
            if not isinstance(value, str):
                raise ValueError(f"{name} must be text, got {value!r}")


def resolve_codes(codes: Iterable[str], declared: Collection[str], aliases: Mapping[str, str]) -> tuple[str, ...]:
    """Declared keys among ``codes`` (oldest press first), aliases replaced.

    A key that is held under two names stands where it was pressed last.
    """
    newest_last: dict[str, None] = {}
    for code in codes:
        resolved = aliases.get(code, code)
        if resolved in declared:
            newest_last.pop(resolved, None)
            newest_last[resolved] = None
    return tuple(newest_last)


def last_press_wins(held: tuple[str, ...], opposing: Iterable[Collection[str]]) -> tuple[str, ...]:
    """``held`` (oldest press first) without the keys that a later press of the same opposing group overrules."""
    overruled: set[str] = set()
    for group in opposing:
        overruled.update([code for code in held if code in group][:-1])
    return tuple(code for code in held if code not in overruled)
