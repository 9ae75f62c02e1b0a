from __future__ import annotations

from pathlib import Path

import pytest

from realtime_engine.cli.local_imports import local_imports


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, text in {
        "demo.py": "import numpy, model\nfrom parts import encoder, MISSING\nfrom parts.deep.net import Net\n",
        "model.py": "def build():\n    import late\n",
        "late.py": "import demo\n",
        "unused.py": "",
        "parts/__init__.py": "from . import shared\n",
        "parts/shared.py": "",
        "parts/encoder.py": "from .deep import net\nfrom ..outside import x\n",
        "parts/unused.py": "",
        "parts/deep/__init__.py": "",
        "parts/deep/net.py": "from ..shared import x\nimport parts.other\n",
        "parts/other.py": "def broken(:\n",
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def test_all_files_that_are_imported_from_the_folder_are_found(folder: Path) -> None:
    found = {path.relative_to(folder.resolve()).as_posix() for path in local_imports(folder / "demo.py")}
    unused = {"unused.py", "parts/unused.py"}
    assert found == {path.relative_to(folder).as_posix() for path in folder.rglob("*.py")} - unused


def test_a_file_that_cannot_be_read_counts_alone(tmp_path: Path) -> None:
    assert local_imports(tmp_path / "none.py") == {(tmp_path / "none.py").resolve()}
    (tmp_path / "binary.py").write_bytes(b"\0\xff")
    assert local_imports(tmp_path / "binary.py") == {(tmp_path / "binary.py").resolve()}
