"""The README's Python runs as it stands."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

README = Path(__file__).parents[1] / "README.md"


def test_the_readmes_python_runs_as_it_stands(tmp_path):
    readme = README.read_text(encoding="utf-8")
    blocks = [block.split("```")[0] for block in readme.split("```python\n")[1:]]
    runnable = [block for block in blocks if "MyModel" not in block]
    assert len(runnable) == 2
    for block in runnable:
        done = subprocess.run(
            [sys.executable, "-W", "error", "-c", block], capture_output=True, text=True, cwd=tmp_path
        )
        assert done.returncode == 0, done.stderr
        assert "alice" in done.stdout or "Attached" in done.stdout
