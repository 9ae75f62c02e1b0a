"""Nothing optional is imported before it is needed, and what is missing says so."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import cv2
import numpy as np
import pytest
from PIL import Image

from realtime_engine.infra.extras import MissingDependencyError
from realtime_engine.infra.mp4 import Mp4Writer
from realtime_engine.infra.runner_io import load_first_frame, load_image, load_video, resize, to_tensor

PIXELS = np.zeros((4, 4, 3), np.uint8)


def test_importing_it_imports_nothing_optional() -> None:
    program = """
import sys
import realtime_engine.infra.mp4, realtime_engine.infra.runner_io
print(sorted({"av", "cv2", "PIL", "torch", "httpx"} & set(sys.modules)))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def deep(path: Path) -> Path:
    cv2.imwrite(str(path), PIXELS.astype(np.uint16))
    return path


@pytest.mark.parametrize(
    ("missing", "extra", "use"),
    [
        ("PIL.Image", "serve", lambda folder: load_image(folder / "a.png")),
        ("PIL.Image", "serve", lambda folder: resize(PIXELS, 2, 2)),
        ("cv2", "serve", lambda folder: load_image(deep(folder / "deep.png"))),
        ("av", "serve", lambda folder: load_video(folder / "a.mp4")),
        ("av", "serve", lambda folder: load_first_frame(folder / "a.mp4")),
        ("av", "serve", lambda folder: Mp4Writer(folder / "b.mp4", 30)),
        ("torch", "torch", lambda folder: to_tensor(PIXELS)),
    ],
)
def test_what_is_missing_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, missing: str, extra: str, use: Callable[[Path], object]
) -> None:
    Image.fromarray(PIXELS).save(tmp_path / "a.png")
    (tmp_path / "a.mp4").touch()
    monkeypatch.setitem(sys.modules, missing, None)
    package = missing.partition(".")[0]
    with pytest.raises(MissingDependencyError, match=rf"'{package}'.*pip install 'realtime-engine\[{extra}\]'"):
        use(tmp_path)
    assert not (tmp_path / "b.mp4").exists()
