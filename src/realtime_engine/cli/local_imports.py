"""The files that a Python file imports from its own folder."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path


def local_imports(path: Path) -> set[Path]:
    """The file and all files that it imports, directly or indirectly, from its folder and the folders below.

    The imports are read from the source, so nothing runs. A file with a syntax error counts without its imports.
    """
    root = path.resolve().parent
    found: set[Path] = set()
    pending = [path.resolve()]
    while pending:
        current = pending.pop()
        if current in found:
            continue
        found.add(current)
        pending += (file for name in _imported(current, root) for file in _files_of(name, root))
    return found


def _imported(path: Path, root: Path) -> Iterator[str]:
    """Names that a file imports, as absolute names; those of a ``from`` import may be modules or not."""
    try:
        tree = ast.parse(path.read_bytes())
    except (OSError, SyntaxError, ValueError):
        return
    package = path.parent.relative_to(root).parts
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            parents = package[: len(package) - node.level + 1] if node.level else ()
            base = ".".join((*parents, *filter(None, [node.module])))
            yield from (f"{base}.{alias.name}".strip(".") for alias in node.names)


def _files_of(name: str, root: Path) -> Iterator[Path]:
    """The files below ``root`` that the import of a name runs."""
    folder = root
    for part in name.split("."):
        for file in (folder / f"{part}.py", folder / part / "__init__.py"):
            if file.is_file():
                yield file.resolve()
        folder = folder / part
