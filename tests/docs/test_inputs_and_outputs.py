"""The script in docs/inputs-and-outputs.md runs unchanged."""

from __future__ import annotations

import re
from fractions import Fraction
from pathlib import Path

import pytest
from PIL import Image

from realtime_engine.demo import load_video, read_stats

from ..infra.runner_io.films import film, pictures

PAGE = Path(__file__).parents[2] / "docs" / "inputs-and-outputs.md"


def test_the_script_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (script,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    (tmp_path / "prompts.txt").write_text("\na fox\n")
    Image.fromarray(pictures()[0]).save(tmp_path / "seed.png")
    film(tmp_path / "walk.mp4", pictures(3))
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    exec(compile(script, str(PAGE), "exec"), names)
    assert read_stats("out/stats_walk.json") == {"frames": 5, "prompt": "a fox"}
    written = load_video("out/walk.mp4")
    assert (written.frames.shape, written.fps) == ((5, 480, 832, 3), Fraction(16))
    assert getattr(names["seed"], "shape", None) == (480, 832, 3)
