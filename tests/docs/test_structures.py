"""docs/structures.md leaves out no file of the engine."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_every_file_of_the_core_is_listed_once() -> None:
    page = (ROOT / "docs" / "structures.md").read_text().partition("## core, file by file")[2].partition("\n## ")[0]
    listed = [
        name for row in re.findall(r"^\| (`[^|]*) \|", page, re.MULTILINE) for name in re.findall(r"`(\w+)`", row)
    ]
    files = [path.stem for path in (ROOT / "src" / "realtime_engine" / "core").glob("*.py") if path.stem != "__init__"]
    assert sorted(listed) == sorted(files)
