from __future__ import annotations

from pathlib import Path

import pytest

from realtime_engine.infra.runner_io import output_path


def test_the_directory_is_made(tmp_path: Path) -> None:
    path = output_path(tmp_path / "a" / "b", "maze.mp4")
    assert path == tmp_path / "a" / "b" / "maze.mp4"
    assert path.parent.is_dir()


def test_what_exists_is_kept(tmp_path: Path) -> None:
    (tmp_path / "maze.mp4").touch()
    with pytest.raises(FileExistsError, match=r"maze\.mp4 exists"):
        output_path(tmp_path, "maze.mp4")
    assert output_path(tmp_path, "maze.mp4", overwrite=True) == tmp_path / "maze.mp4"


@pytest.mark.parametrize("name", ["", ".", "..", "../a", "/a", "a/b", "a\\b", "a\0b"])
def test_a_name_leads_nowhere_else(tmp_path: Path, name: str) -> None:
    with pytest.raises(ValueError, match="the name of a file"):
        output_path(tmp_path, name)


def test_a_file_is_no_directory(tmp_path: Path) -> None:
    (tmp_path / "out").touch()
    for folder in ("out", "out/more"):
        with pytest.raises(FileExistsError, match="a file and no directory"):
            output_path(tmp_path / folder, "maze.mp4")
