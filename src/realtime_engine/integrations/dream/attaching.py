"""What a session begins with, and what it is told later, read and checked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .level import HEIGHT, THEMES, WIDTH, TrueView, first_visitor

_MOST_SEEDS = 2**63


class Start(NamedTuple):
    """How a session begins: what is seen, and the seed of what goes astray."""

    picture: NDArray[np.uint8]
    seed: int


def start_in(context: Mapping[str, Any]) -> Start:
    """From an attach context. Errors: :class:`ValueError`, naming the field."""
    seed = _seed_in(context)
    picture = context.get("picture")
    if picture is None:
        return Start(seed_picture(seed, theme_in(context)), seed)
    if not isinstance(picture, np.ndarray) or picture.shape != (HEIGHT, WIDTH, 3) or picture.dtype != np.uint8:
        found = f"{picture.dtype} {picture.shape}" if isinstance(picture, np.ndarray) else repr(picture)[:60]
        raise ValueError(f"picture must be a uint8 array of shape ({HEIGHT}, {WIDTH}, 3), got {found}")
    return Start(picture, seed)


def seed_picture(seed: int, theme: str) -> NDArray[np.uint8]:
    """(HEIGHT, WIDTH, 3) what is to be seen where a walk with this seed begins."""
    picture: NDArray[np.uint8] = TrueView()(first_visitor(seed)[None], np.array([THEMES.index(theme)]))[0]
    return picture


def theme_in(given: Mapping[str, Any]) -> str:
    """The theme's name. Errors: :class:`ValueError`."""
    theme = given.get("theme")
    if theme is None:
        return THEMES[0]
    if not isinstance(theme, str) or theme not in THEMES:
        raise ValueError(f"theme must be one of {', '.join(THEMES)}, got {theme!r}")
    return theme


def strength_in(given: Mapping[str, Any]) -> float:
    """How far a session goes astray, 0 to 1. Errors: :class:`ValueError`."""
    astray = given.get("astray", 0.0)
    if isinstance(astray, bool) or not isinstance(astray, (int, float)) or not 0 <= astray <= 1:
        raise ValueError(f"astray must be a number from 0 to 1, got {astray!r}")
    return float(astray)


def _seed_in(context: Mapping[str, Any]) -> int:
    seed = context.get("seed")
    if seed is None:
        return 0
    if isinstance(seed, bool) or not isinstance(seed, (int, np.integer)) or not 0 <= seed < _MOST_SEEDS:
        raise ValueError(f"seed must be an integer from 0 to 2**63 - 1, got {seed!r}")
    return int(seed)
