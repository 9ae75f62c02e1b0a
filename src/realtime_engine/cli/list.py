"""``list`` and ``info``: the named demos, and the description of one."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

from rich.markup import escape
from rich.table import Table

from ..core.errors import describe
from ..infra.controls import Controls
from ..infra.demo import Demo
from ..integrations.registry import list_demos
from .console import CommandError, out


def print_demos() -> None:
    """Print a table of all named demos. A demo that fails to load is listed with its error."""
    table = Table("name", "from", "title", box=None, header_style="bold", pad_edge=False)
    for listed in list_demos():
        text = escape(listed.demo.title) if listed.demo is not None else f"[red]{escape(listed.error or '')}[/]"
        table.add_row(escape(listed.source.name), escape(listed.source.origin), text)
    out.print(table)


def print_info(demo: Demo, *, as_json: bool, build: bool) -> None:
    """Print the description of a demo as tables, or as one JSON object.

    Raises:
        CommandError: the engine cannot be built.
    """
    manifest = _manifest(demo) if build else None
    if as_json:
        out.print(json.dumps(describe_demo(demo, manifest), indent=2), soft_wrap=True, markup=False)
        return
    out.print(f"[bold]{escape(demo.title)}[/] ({demo.name})")
    if demo.description:
        out.print(escape(demo.description))
    if manifest is not None:
        _print_table("Manifest", [(name, str(value)) for name, value in manifest.items()])
    _print_table("Controls", _controls(demo.controls))
    video = demo.takes_video
    _print_table("Video input", [] if video is None else [(name, str(value)) for name, value in asdict(video).items()])
    _print_table("Fields", _properties(demo.controls.fields))
    _print_table("Options", _properties(demo.options))


def describe_demo(demo: Demo, manifest: dict[str, Any] | None) -> dict[str, Any]:
    """The description of a demo as JSON; ``manifest`` is ``null`` if the engine was not built."""
    video = demo.takes_video
    return {
        "name": demo.name,
        "title": demo.title,
        "description": demo.description,
        "manifest": manifest,
        "controls": demo.controls.describe(),
        "required_context": list(demo.required_context),
        "options": None if demo.options is None else demo.options.model_json_schema(),
        "frames": asdict(demo.frames),
        "video_input": None if video is None else asdict(video),
    }


def _manifest(demo: Demo) -> dict[str, Any]:
    try:
        return asdict(demo.build_engine().manifest())
    except Exception as error:  # code of the demo may raise anything
        hint = "(use --no-build to omit the manifest)"
        raise CommandError(f"demo {demo.name!r} cannot be built: {describe(error)} {hint}") from error


def _controls(controls: Controls) -> list[tuple[str, str]]:
    aliases: dict[str, list[str]] = {}
    for alias, code in controls.aliases.items():
        aliases.setdefault(code, []).append(alias)
    rows = [(", ".join([key.code, *aliases.get(key.code, [])]), key.label) for key in controls.keys]
    rows += [("pointer", str(controls.pointer))] if controls.pointer else []
    rows += [("wheel", "read")] if controls.wheel else []
    rows += [("gamepad", "read")] if controls.gamepad else []
    return rows + [("touch stick", stick) for stick in controls.sticks]


def _properties(model: Any) -> list[tuple[str, str]]:
    if model is None:
        return []
    properties = model.model_json_schema().get("properties", {})
    return [(name, _property(schema)) for name, schema in properties.items()]


def _property(schema: dict[str, Any]) -> str:
    parts = [str(schema["type"])] if "type" in schema else []
    if "default" in schema:
        parts.append(f"default {json.dumps(schema['default'])}")
    text = schema.get("description") or ""
    return ", ".join(parts) + (f". {text}" if text and parts else text)


def _print_table(title: str, rows: list[tuple[str, str]]) -> None:
    if not rows:
        return
    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    for name, text in rows:
        table.add_row(f"  {escape(name)}", escape(text))
    out.print(f"\n[bold]{title}[/]")
    out.print(table)
