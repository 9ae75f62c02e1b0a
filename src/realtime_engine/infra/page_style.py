"""What a demo adds to the generic page: texts, values over the picture, a logo, colors, styles and a script."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Literal, TypeAlias, get_args

from .controls.declaration import did_you_mean

Theme: TypeAlias = Literal["auto", "dark", "light"]

COLORS = ("background", "surface", "raised", "line", "text", "muted", "accent", "on-accent", "good", "bad")
"""The colors of the page, each a CSS variable of ``style.css``."""

_COLOR = re.compile(r"#[0-9a-fA-F]{3,8}|[a-zA-Z]+|(?:rgb|hsl|oklch|oklab|lab|lch|hwb)a?\([\d\s.,%/a-z+-]+\)")
_LOGOS = (".svg", ".png", ".webp", ".jpg", ".jpeg", ".gif", ".avif")


@dataclass(frozen=True, eq=False)
class PageStyle:
    """Additions to the generic page.

    Attributes:
        folder: the files of the style, served as they are: ``extra.css`` and ``extra.js``, if they exist, are loaded
            after the page's own, and may load others from the folder.
        logo: name of an image in ``folder``, shown beside the title.
        help: explains the demo; shown below the picture, folded. Blank lines separate paragraphs.
        footer: a line below the page.
        hud: names of values of ``StepResult.stats``, shown over the picture in this order.
        theme: ``"auto"`` follows the setting of the browser.
        colors: names of :data:`COLORS` to CSS colors, for both themes.

    Raises:
        ValueError: a field is invalid; the message names it.
    """

    folder: Path | None = None
    logo: str | None = None
    help: str = ""
    footer: str = ""
    hud: tuple[str, ...] = ()
    theme: Theme = "auto"
    colors: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "colors", MappingProxyType(dict(self.colors)))
        if self.folder is not None and not (isinstance(self.folder, Path) and self.folder.is_dir()):
            raise ValueError(f"folder must be the Path of a folder, got {self.folder!r}")
        self._check_logo()
        for name in ("help", "footer"):
            if not isinstance(getattr(self, name), str):
                raise ValueError(f"{name} must be a text, got {getattr(self, name)!r}")
        if not isinstance(self.hud, tuple) or not all(isinstance(name, str) for name in self.hud):
            raise ValueError(f"hud must be a tuple of names of StepResult.stats, got {self.hud!r}")
        if self.theme not in get_args(Theme):
            raise ValueError(f"theme must be one of {', '.join(get_args(Theme))}, got {self.theme!r}")
        for name, color in self.colors.items():
            if name not in COLORS:
                raise ValueError(f"colors: {name!r} is no color of the page{did_you_mean(str(name), COLORS)}")
            if not isinstance(color, str) or not _COLOR.fullmatch(color):
                raise ValueError(f"colors: {name} must be a CSS color, such as '#ffb454', got {color!r}")

    @property
    def files(self) -> tuple[str, ...]:
        """Those of ``extra.css`` and ``extra.js`` that exist."""
        folder = self.folder
        return () if folder is None else tuple(n for n in ("extra.css", "extra.js") if (folder / n).is_file())

    def _check_logo(self) -> None:
        if self.logo is None:
            return
        if self.folder is None or not (self.folder / self.logo).is_file() or Path(self.logo).name != self.logo:
            raise ValueError(f"logo must be the name of a file in folder, got {self.logo!r} in {self.folder}")
        if Path(self.logo).suffix.lower() not in _LOGOS:
            raise ValueError(f"logo must be an image ({', '.join(_LOGOS)}), got {self.logo!r}")
