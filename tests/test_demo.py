"""The one door for authors of demos."""

from __future__ import annotations

import subprocess
import sys

import realtime_engine.demo as door

HEAVY = ("torch", "cv2", "av", "aiortc", "fastapi", "PIL")


def run(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)


def test_the_export_list_is_complete_and_sorted() -> None:
    assert sorted(set(door.__all__)) == door.__all__
    public = {
        name
        for name, value in vars(door).items()
        if not name.startswith("_") and name not in ("annotations", "require")
    }
    assert public == set(door.__all__)


def test_importing_it_imports_nothing_heavy() -> None:
    done = run(f"import sys, realtime_engine.demo; print([name for name in {HEAVY} if name in sys.modules])")
    assert done.stdout.strip() == "[]", done.stderr


def test_without_pydantic_the_error_names_the_extra() -> None:
    done = run("import sys; sys.modules['pydantic'] = None; import realtime_engine.demo")
    assert done.returncode == 1
    assert "cannot declare a demo without the package 'pydantic'" in done.stderr
    assert "pip install 'realtime-engine[serve]'" in done.stderr
