"""What a session begins with, and what it is told later, read and checked."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...core.errors import brief
from .level import HEIGHT, THEMES, WIDTH, TrueView, first_visitor

_MAX_SEEDS = 2**63
_rendering = threading.Lock()  # a renderer has one workspace, and pictures are wanted on two lanes


class Start(NamedTuple):
    """How a session begins: what is seen, and the seed of what goes astray."""

    picture: NDArray[np.uint8]
    seed: int


def start_in(context: Mapping[str, Any]) -> Start:
    """From an attach context. Errors: :class:`ValueError`, naming the field."""
    seed, theme = _seed_in(context), theme_in(context)
    picture = context.get("picture")
    if picture is None:
        return Start(seed_picture(seed, theme), seed)
    if not isinstance(picture, np.ndarray) or picture.shape != (HEIGHT, WIDTH, 3) or picture.dtype != np.uint8:
        found = f"{picture.dtype} {picture.shape}" if isinstance(picture, np.ndarray) else brief(picture)
        raise ValueError(f"picture must be a uint8 array of shape ({HEIGHT}, {WIDTH}, 3), got {found}")
    return Start(picture.copy(), seed)  # torch wants memory that is writable and in order


def seed_picture(seed: int, theme: str) -> NDArray[np.uint8]:
    """(HEIGHT, WIDTH, 3) what is to be seen where a walk with this seed begins."""
    with _rendering:
        pictures = _true_view()(first_visitor(seed)[None], np.array([THEMES.index(theme)]))
    picture: NDArray[np.uint8] = pictures[0]
    return picture


@lru_cache(maxsize=1)
def _true_view() -> TrueView:
    return TrueView()


def theme_in(given: Mapping[str, Any]) -> str:
    """The theme's name. Errors: :class:`ValueError`."""
    theme = given.get("theme")
    if theme is None:
        return THEMES[0]
    if not isinstance(theme, str) or theme not in THEMES:
        raise ValueError(f"theme must be one of {', '.join(THEMES)}, got {brief(theme)}")
    return theme


def strength_in(given: Mapping[str, Any]) -> float:
    """How far a session goes astray, 0 to 1. Errors: :class:`ValueError`."""
    astray = given.get("astray", 0.0)
    if isinstance(astray, bool) or not isinstance(astray, (int, float)) or not 0 <= astray <= 1:
        raise ValueError(f"astray must be a number from 0 to 1, got {brief(astray)}")
    return float(astray)


def _seed_in(context: Mapping[str, Any]) -> int:
    seed = context.get("seed")
    if seed is None:
        return 0
    if isinstance(seed, bool) or not isinstance(seed, (int, np.integer)) or not 0 <= seed < _MAX_SEEDS:
        raise ValueError(f"seed must be an integer from 0 to 2**63 - 1, got {brief(seed)}")
    return int(seed)
