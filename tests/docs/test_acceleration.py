"""The example and the names in docs/acceleration.md."""

from __future__ import annotations

import re
from pathlib import Path

from realtime_engine import demo

PAGE = (Path(__file__).parents[2] / "docs" / "acceleration.md").read_text()


def test_the_example_runs(capsys):
    import torch

    (block,) = re.findall(r"^```python\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
    scope: dict[str, object] = {}
    exec(block, scope)
    lines = [f"{number} (16, 64) torch.uint8" for number in range(3)]
    assert capsys.readouterr().out.splitlines() == ["graphs started", "graphs done", *lines]
    if not torch.cuda.is_available():
        assert scope["dispatch"].fallback_reason == "there is no CUDA device"


def test_every_name_in_the_table_is_exported():
    names = re.findall(r"^\| `(\w+)", PAGE, re.MULTILINE)
    assert len(names) == 6 and all(name in demo.__all__ for name in names)
