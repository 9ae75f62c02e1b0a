#!/usr/bin/env python3
"""Write the file map of docs/architecture.md: every module with the summary of its docstring."""

from __future__ import annotations

import ast
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SOURCES = ROOT / "src" / "realtime_engine"
PAGE = ROOT / "docs" / "architecture.md"
BEGIN, END = "<!-- file map: written by scripts/file_map.py -->\n", "<!-- end of the file map -->\n"
LAYERS = ("", "core", "examples", "testing", "infra", "integrations", "server", "client", "cli", "notebook")


def file_map() -> str:
    """One heading, one sentence and one table for each package, the lowest layer first."""
    return "\n".join(_section(package) for package in _packages())


def updated(page: str) -> str:
    """The page with the current map between its markers."""
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        raise ValueError(f"{PAGE.name} lacks the line {(END if begin else BEGIN).strip()!r}")
    return f"{before}{begin}\n{file_map()}\n{end}{after}"


def _packages() -> list[Path]:
    found = sorted(path.parent for path in SOURCES.rglob("__init__.py"))
    return sorted(found, key=lambda folder: LAYERS.index(_layer(folder)))


def _layer(package: Path) -> str:
    return package.relative_to(SOURCES).as_posix().partition("/")[0].strip(".")


def _section(package: Path) -> str:
    name = ".".join(package.relative_to(ROOT / "src").parts)
    rows = [f"| `{path.stem}` | {_summary(path)} |" for path in sorted(package.glob("*.py")) if path.stem != "__init__"]
    table = ["", "| module | contents |", "|---|---|", *rows] if rows else []
    return "\n".join([f"### `{name}`", "", _summary(package / "__init__.py"), *table, ""])


def _summary(path: Path) -> str:
    """First paragraph of a module's docstring, as Markdown on one line."""
    docstring = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))
    if not docstring:
        raise ValueError(f"{path.relative_to(ROOT)} has no docstring")
    line = " ".join(docstring.split("\n\n")[0].split())
    line = re.sub(r":\w+:`(?:~[\w.]*\.)?\.*([^`]+)`", r"`\1`", line)
    return line.replace("``", "`").replace("|", r"\|")


if __name__ == "__main__":
    PAGE.write_text(updated(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
