"""The revision of a server: whether an open page still fits it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from ..infra.demo import Demo
from ..infra.page_style import PageStyle
from .page import web_directory

_PAGE_SUFFIXES = (".html", ".css", ".js", ".mjs")
_LENGTH = 16  # hexadecimal digits


def revision_of(demo: Demo) -> str:
    """A hash of what a page keeps for its life: the description and controls of the demo, and the files of the page.

    It is the same for the same demo and page after a restart. Values that default factories draw are left out.
    """
    controls = {name: value for name, value in demo.controls.describe().items() if name != "defaults"}
    described: dict[str, Any] = {
        "name": demo.name,
        "title": demo.title,
        "description": demo.description,
        "controls": controls,
        "required_context": list(demo.required_context),
        "takes_video": repr(demo.takes_video),
        "style": _describe_style(demo.style),
        "frames": [demo.frames.pixel_aspect, demo.frames.scaling],
        "page": None if demo.page is None else _hash_of_files(demo.page),
        "web": _hash_of_files(web_directory()),
    }
    return hashlib.sha256(json.dumps(described, sort_keys=True).encode()).hexdigest()[:_LENGTH]


def _describe_style(style: PageStyle) -> list[Any]:
    texts = [style.logo, style.help, style.footer, style.hud, style.theme, dict(style.colors)]
    return [*texts, None if style.folder is None else _hash_of_files(style.folder)]


@cache
def _hash_of_files(directory: Path) -> str:
    digest = hashlib.sha256()
    for path in _page_files(directory):
        digest.update(f"{path.relative_to(directory).as_posix()}\0".encode())
        digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()


def _page_files(directory: Path) -> Iterator[Path]:
    """The files of a page that contain code, in a fixed order."""
    return (path for path in sorted(directory.rglob("*")) if path.suffix in _PAGE_SUFFIXES and path.is_file())
