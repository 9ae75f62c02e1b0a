"""Themes: maps free text to colors."""

from __future__ import annotations

import colorsys
import hashlib
import re
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from .textures import LEVELS, MATERIALS, ONE, STEPS

FOGS = 64
"""Steps from a clear view (0) to full fog."""
TABLE_SIZE = FOGS * MATERIALS * LEVELS
ORB_COLORS = 3

Rgb = tuple[float, float, float]
_GAMMA = 2.2


@dataclass(frozen=True)
class Theme:
    """Colors of a world, as sRGB in 0..1.

    Attributes:
        materials: in the order of the materials in ``textures``: brick, cobble, panels, planks, flagstone, mosaic,
            coffer, lamp.
        shadow: color of all materials in the dark.
        fog: color of the fog.
        density: fog per cell of distance.
        orbs: colors of the orbs.
        exposure: factor on all light.
        contrast: exponent on all light; below 1, dark areas become brighter.
    """

    materials: tuple[Rgb, ...]
    shadow: Rgb
    fog: Rgb
    density: float
    orbs: tuple[Rgb, Rgb, Rgb]
    exposure: float = 1.0
    contrast: float = 1.0

    @property
    def lookup(self) -> NDArray[np.uint32]:
        """Colors by fog, material and level, (TABLE_SIZE,), as R, G, B, 255 in memory order."""
        return _lookup(self)


def _hex(text: str) -> Rgb:
    red, green, blue = (int(text[i : i + 2], 16) / 255 for i in (0, 2, 4))
    return red, green, blue


def _theme(materials: str, shadow: str, fog: str, density: float, orbs: str, exposure: float, contrast: float) -> Theme:
    first, second, third = map(_hex, orbs.split())
    walls = tuple(map(_hex, materials.split()))
    return Theme(walls, _hex(shadow), _hex(fog), density, (first, second, third), exposure, contrast)


DUNGEON = _theme(
    "c97b54 b3a58f 8fa3a8 b98a55 a89a86 c8a878 8a7f74 ffd9a0",
    "2a2436",
    "17131a",
    0.15,
    "ffb347 6fd3ff c792ff",
    1.15,
    0.9,
)
"""Theme of an empty prompt."""

THEMES = {
    "ice": _theme(
        "86c0ea a9d2f2 6fa8e0 9cc4de b4dcf0 74b4e6 a4cce4 e8fbff",
        "1d3f8a", "9cc8e6", 0.10, "7aeaff d8f4ff 8f9dff", 1.05, 0.75,
    ),
    "lava": _theme(
        "b0563a 94503f c46a2c 8a4436 c8501e f08a24 6e4038 ffc04a",
        "5a0c04", "7a1c06", 0.11, "ff7a1a ffd23a ff3a1a", 1.35, 0.8,
    ),
    "forest": _theme(
        "93a45c 7a9c58 a8b06a b0804c 6f9448 b4bc62 66864f f4ffb8",
        "10301c", "4c7446", 0.12, "c8ff5a 7dffb0 ffe87a", 1.2, 0.8,
    ),
    "night": _theme(
        "5668a8 6070a4 4f74b4 6a609c 5264a0 6478bc 444e86 c4d6ff",
        "0c0e30", "060714", 0.2, "7aa8ff c08aff 66ffe0", 0.95, 1.05,
    ),
    "desert": _theme(
        "e0a566 dcb478 e6c286 c08a54 e8c68c d69a56 d8b47c fff0c0",
        "7a4026", "e6c48e", 0.08, "ffd86a ff8a3a 5ae0d8", 1.15, 0.7,
    ),
    "candy": _theme(
        "ff86b4 ffaed6 8fdcff ffc782 ffd2e8 b090ff 94f0cc fff6d0",
        "b03a98", "f9b8de", 0.08, "ff5aa8 5ae0ff ffe85a", 1.15, 0.62,
    ),
}  # fmt: skip
"""Known words and their themes."""


def theme_of(prompt: str) -> Theme:
    """Return the theme of a text: the mean of its known words, or colors derived from a hash of its letters."""
    words = re.findall(r"\w+", prompt.lower())
    if not words:
        return DUNGEON
    known = sorted({word for word in words if word in THEMES})
    rest = " ".join(word for word in words if word not in THEMES)
    if not known:
        return _invented(rest)
    theme = _mean([THEMES[word] for word in known])
    return _hinted(theme, rest) if rest else theme


def _numbers(text: str) -> list[float]:
    """Return 16 numbers in 0..1 from a hash of the text."""
    return [byte / 255 for byte in hashlib.blake2b(text.encode(), digest_size=16).digest()]


def _hsv(hue: float, saturation: float, value: float) -> Rgb:
    return colorsys.hsv_to_rgb(hue % 1.0, min(max(saturation, 0.0), 1.0), min(max(value, 0.0), 1.0))


def _invented(text: str) -> Theme:
    n = _numbers(text)
    hue, accent = n[0], n[0] + (0.5, 0.33, 0.12, -0.2)[int(n[1] * 3.99)]
    spread = [hue + 0.09 * (n[i] - 0.5) for i in range(2, 7)]
    calm = 0.28 + 0.4 * n[7]
    bright_fog = n[8] > 0.6
    materials = (
        _hsv(spread[0], calm, 0.78),
        _hsv(spread[1], calm * 0.6, 0.76),
        _hsv(accent, calm * 0.8, 0.74),
        _hsv(accent + 0.06, calm, 0.7),
        _hsv(spread[2], calm * 0.5, 0.76),
        _hsv(accent, calm, 0.84),
        _hsv(spread[3], calm * 0.7, 0.62),
        _hsv(spread[4], 0.2, 1.0),
    )
    fog = _hsv(hue + 0.03, 0.3, 0.78) if bright_fog else _hsv(hue + 0.5 * n[9], 0.5, 0.1 + 0.12 * n[10])
    orbs = (_hsv(accent, 0.6, 1.0), _hsv(hue, 0.45, 1.0), _hsv(accent + 0.33, 0.55, 1.0))
    return Theme(materials, _hsv(hue + 0.08, 0.6, 0.22), fog, 0.1 + 0.05 * n[11], orbs, 1.2, 0.7 if bright_fog else 0.9)


def _mean(themes: list[Theme]) -> Theme:
    def mix(*colors: Rgb) -> Rgb:
        red, green, blue = (sum(channel) / len(colors) for channel in zip(*colors, strict=True))
        return red, green, blue

    first, second, third = (mix(*colors) for colors in zip(*(theme.orbs for theme in themes), strict=True))
    return Theme(
        materials=tuple(mix(*colors) for colors in zip(*(theme.materials for theme in themes), strict=True)),
        shadow=mix(*(theme.shadow for theme in themes)),
        fog=mix(*(theme.fog for theme in themes)),
        density=sum(theme.density for theme in themes) / len(themes),
        orbs=(first, second, third),
        exposure=sum(theme.exposure for theme in themes) / len(themes),
        contrast=sum(theme.contrast for theme in themes) / len(themes),
    )


def _hinted(theme: Theme, text: str) -> Theme:
    """Shift the hue of each material slightly, so that different texts have different colors."""
    turned = []
    for color, number in zip(theme.materials, _numbers(text), strict=False):
        hue, saturation, value = colorsys.rgb_to_hsv(*color)
        turned.append(_hsv(hue + 0.07 * (number - 0.5), saturation, value))
    return replace(theme, materials=tuple(turned))


def _linear(color: Rgb) -> NDArray[np.float32]:
    linear: NDArray[np.float32] = np.array(color, np.float32) ** np.float32(_GAMMA)
    return linear


@lru_cache(maxsize=8)
def _lookup(theme: Theme) -> NDArray[np.uint32]:
    doublings = (np.arange(LEVELS, dtype=np.float32) - ONE) / STEPS * np.float32(theme.contrast)
    light = np.exp2(doublings)[:, None] * np.float32(theme.exposure)
    shade = np.clip(light * 1.6, 0, 1)
    tint = np.stack([_linear(color) for color in theme.materials])[:, None, :]
    lit = light * (tint * shade + _linear(theme.shadow) * (1 - shade))  # (MATERIALS, LEVELS, 3)
    lit = 1.55 * lit / (1 + 0.75 * lit)  # compress highlights instead of clipping them
    clear = np.linspace(1, 0, FOGS, dtype=np.float32)[:, None, None, None]
    lamp_clear = np.sqrt(clear)  # lamps shine through fog
    veil = np.broadcast_to(clear, (FOGS, MATERIALS, 1, 1)).copy()
    veil[:, MATERIALS - 1] = lamp_clear[:, 0]
    seen = lit * veil + _linear(theme.fog) * (1 - veil)
    table = np.full((FOGS, MATERIALS, LEVELS, 4), 255, np.uint8)
    table[..., :3] = np.rint(255 * np.clip(seen, 0, 1) ** np.float32(1 / _GAMMA))
    lookup = table.reshape(-1, 4).view(np.uint32)[:, 0]
    lookup.setflags(write=False)
    return lookup
