"""Values on their way between stages."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

from .outputs import ControlStamp

Controls: TypeAlias = dict[str, ControlStamp]


class Slot:
    """One value of an artifact, kept until its last use."""

    __slots__ = ("value", "references", "controls")

    def __init__(self, value: object, references: int, controls: Controls | None = None) -> None:
        self.value = value
        self.references = references
        self.controls = controls


def merged(stamps: Iterable[Controls | None], sampled: Controls) -> Controls:
    """The oldest version of every control that had a part in something."""
    found = dict(sampled)
    for controls in stamps:
        for artifact, stamp in (controls or {}).items():
            if artifact not in found or stamp < found[artifact]:
                found[artifact] = stamp
    return found
