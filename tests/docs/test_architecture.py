"""The file map of docs/architecture.md lists every module of every package, and says what its docstring says."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCES = ROOT / "src"
PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
SECTIONS = re.findall(r"^### `(realtime_engine[\w.]*)`\n(.*?)(?=^### |^<!-- end)", PAGE, re.DOTALL | re.MULTILINE)


def test_every_package_has_one_section() -> None:
    packages = [".".join(path.parent.relative_to(SOURCES).parts) for path in SOURCES.rglob("__init__.py")]
    assert sorted(name for name, _ in SECTIONS) == sorted(packages)


def test_every_module_is_listed_once_with_its_package() -> None:
    for package, section in SECTIONS:
        listed = re.findall(r"^\| `(\w+)` \| \S", section, re.MULTILINE)
        modules = [path.stem for path in SOURCES.joinpath(*package.split(".")).glob("*.py") if path.stem != "__init__"]
        assert sorted(listed) == sorted(modules), package


def test_the_map_repeats_the_docstrings() -> None:
    updated = runpy.run_path(str(ROOT / "scripts" / "file_map.py"))["updated"]
    assert updated(PAGE) == PAGE, "run scripts/file_map.py"
