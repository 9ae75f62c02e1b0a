"""The style of docs/writing-a-demo.md is valid, and its tables are complete."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path
from typing import Any

from realtime_engine.demo import PageStyle
from realtime_engine.infra.page_style import COLORS

ROOT = Path(__file__).parents[2]
SECTION = (ROOT / "docs" / "writing-a-demo.md").read_text().partition("\n## The page\n")[2].partition("\n## ")[0]


def test_the_style_shown_is_valid(tmp_path: Path) -> None:
    (tmp_path / "style").mkdir()
    (tmp_path / "style" / "logo.svg").write_text("<svg/>")
    (block,) = re.findall(r"^```python\n(.*?)^```$", SECTION, re.DOTALL | re.MULTILINE)
    scope: dict[str, Any] = {"__file__": str(tmp_path / "my_demo.py")}
    exec(block, scope)
    assert {field.name for field in dataclasses.fields(PageStyle)} == set(
        re.findall(r"^    (\w+)=", block, re.MULTILINE)
    )


def test_every_field_color_and_element_is_listed() -> None:
    assert [field.name for field in dataclasses.fields(PageStyle) if f"`{field.name}`" not in SECTION] == []
    assert [color for color in COLORS if f"`--{color}`" not in SECTION] == []
    page = (ROOT / "web" / "index.html").read_text()
    elements = re.findall(r"`#([a-z]+)`", SECTION)
    assert elements and [name for name in elements if f'id="{name}"' not in page] == []
