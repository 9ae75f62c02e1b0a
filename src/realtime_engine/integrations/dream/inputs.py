"""Parses and validates attach contexts and conditioning of the dream."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...core.errors import brief
from .level import HEIGHT, THEMES, WIDTH, TrueView, start_pose

_MAX_SEEDS = 2**63
_rendering = threading.Lock()  # the renderer has one workspace and is used from two lanes


class Start(NamedTuple):
    """Start of a session: its first picture and the seed of its latent noise."""

    picture: NDArray[np.uint8]
    seed: int


def start_in(context: Mapping[str, Any]) -> Start:
    """Return the start described by an attach context.

    Raises:
        ValueError: a field is invalid.
    """
    seed, theme = _seed_in(context), theme_in(context)
    picture = context.get("picture")
    if picture is None:
        return Start(seed_picture(seed, theme), seed)
    if not isinstance(picture, np.ndarray) or picture.shape != (HEIGHT, WIDTH, 3) or picture.dtype != np.uint8:
        found = f"{picture.dtype} {picture.shape}" if isinstance(picture, np.ndarray) else brief(picture)
        raise ValueError(f"picture must be a uint8 array of shape ({HEIGHT}, {WIDTH}, 3), got {found}")
    return Start(picture.copy(), seed)  # torch requires writable, contiguous memory


def seed_picture(seed: int, theme: str) -> NDArray[np.uint8]:
    """Return the (HEIGHT, WIDTH, 3) view from the start pose of a seed."""
    with _rendering:
        pictures = _true_view()(start_pose(seed)[None], np.array([THEMES.index(theme)]))
    picture: NDArray[np.uint8] = pictures[0]
    return picture


@lru_cache(maxsize=1)
def _true_view() -> TrueView:
    return TrueView()


def theme_in(conditioning: Mapping[str, Any]) -> str:
    """Return the theme name, by default the first theme.

    Raises:
        ValueError: the theme is unknown.
    """
    theme = conditioning.get("theme")
    if theme is None:
        return THEMES[0]
    if not isinstance(theme, str) or theme not in THEMES:
        raise ValueError(f"theme must be one of {', '.join(THEMES)}, got {brief(theme)}")
    return theme


def strength_in(conditioning: Mapping[str, Any]) -> float:
    """Return ``astray``, the strength of the latent noise from 0 to 1.

    Raises:
        ValueError: it is not a number in this range.
    """
    noise_strength = conditioning.get("astray", 0.0)
    is_number = isinstance(noise_strength, (int, float)) and not isinstance(noise_strength, bool)
    if not is_number or not 0 <= noise_strength <= 1:
        raise ValueError(f"astray must be a number from 0 to 1, got {brief(noise_strength)}")
    return float(noise_strength)


def _seed_in(context: Mapping[str, Any]) -> int:
    seed = context.get("seed")
    if seed is None:
        return 0
    if isinstance(seed, bool) or not isinstance(seed, (int, np.integer)) or not 0 <= seed < _MAX_SEEDS:
        raise ValueError(f"seed must be an integer from 0 to 2**63 - 1, got {brief(seed)}")
    return int(seed)
