"""Merges the windows of several controllers into one, by the policy that the demo declares."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import reduce
from itertools import zip_longest
from operator import or_
from types import MappingProxyType

from .devices import MAX_BUTTONS, GamepadState, clamp
from .window import ControlWindow

__all__ = ["merge_windows"]


def merge_windows(windows: Sequence[ControlWindow], newest: ControlWindow) -> ControlWindow:
    """One window for all controllers, which lists theirs as ``controllers``.

    Args:
        windows: the windows of the controllers, by slot; at least one.
        newest: the one of them whose devices count with the policies ``"last"`` and ``"all"``, and whose pointer is at
            the position that counts with all of them.
    """
    merged = replace(newest, controllers=tuple(windows), slot=0)
    if newest.controls.merge == "sum":
        return _sum(merged)
    if newest.controls.merge == "vote":
        return _vote(merged)
    return merged


def _sum(merged: ControlWindow) -> ControlWindow:
    windows = merged.controllers
    buttons = reduce(or_, (window.pointer.buttons for window in windows))
    return replace(
        merged,
        keys=tuple(dict.fromkeys(key for window in windows for key in window.keys)),
        pointer=replace(merged.pointer, buttons=buttons),
        sticks=_sticks(windows, mean=False),
        gamepad=_gamepad(windows, mean=False),
    )


def _vote(merged: ControlWindow) -> ControlWindow:
    windows = merged.controllers
    pressed = [window.pointer.buttons for window in windows if window.pointer.buttons]
    bits = [1 << place for place in range(MAX_BUTTONS.bit_length())] if pressed else []
    buttons = sum(bit for bit in bits if 2 * sum(bool(held & bit) for held in pressed) >= len(pressed))
    return replace(
        merged,
        keys=_elected([window.keys for window in windows], merged.controls.opposing_groups),
        pointer=replace(merged.pointer, buttons=buttons),
        sticks=_sticks(windows, mean=True),
        gamepad=_gamepad(windows, mean=True),
    )


def _elected(ballots: Sequence[tuple[str, ...]], opposing: Iterable[Collection[str]]) -> tuple[str, ...]:
    """The keys that the vote elects, in the order of the first ballots that name them."""
    votes = Counter(key for keys in ballots for key in keys)
    voters = sum(bool(keys) for keys in ballots)
    rivals: dict[str, set[str]] = {}
    for group in opposing:
        for key in group:
            rivals.setdefault(key, set()).update(set(group) - {key})

    def is_elected(key: str) -> bool:
        if key in rivals:
            return all(votes[key] > votes[rival] for rival in rivals[key])
        return 2 * votes[key] >= voters

    return tuple(key for key in votes if is_elected(key))


def _sticks(windows: Iterable[ControlWindow], *, mean: bool) -> Mapping[str, tuple[float, float]]:
    """The sum of the deflections of each stick, of length at most 1; or their mean."""
    by_name: dict[str, list[tuple[float, float]]] = {}
    for window in windows:
        for name, xy in window.sticks.items():
            if xy != (0.0, 0.0):
                by_name.setdefault(name, []).append(xy)
    merged = {}
    for name, deflections in by_name.items():
        x, y = (sum(values) for values in zip(*deflections, strict=True))
        scale = len(deflections) if mean else max(1.0, math.hypot(x, y))
        merged[name] = x / scale, y / scale
    return MappingProxyType(merged)


def _gamepad(windows: Iterable[ControlWindow], *, mean: bool) -> GamepadState | None:
    """The sum of the axes, limited, and the greatest value of each button; or the means of those that are not 0."""
    pads = [window.gamepad for window in windows if window.gamepad is not None]
    if not pads:
        return None
    axes = zip_longest(*(pad.axes for pad in pads), fillvalue=0.0)
    buttons = zip_longest(*(pad.buttons for pad in pads), fillvalue=0.0)
    if mean:
        return GamepadState(tuple(map(_mean, axes)), tuple(map(_mean, buttons)))
    return GamepadState(tuple(clamp(sum(values), -1.0, 1.0) for values in axes), tuple(map(max, buttons)))


def _mean(values: Iterable[float]) -> float:
    used = [value for value in values if value]
    return sum(used) / len(used) if used else 0.0
