from __future__ import annotations

import os
from pathlib import Path

import pytest

from realtime_engine.infra.atomic_file import AtomicFile, atomic_file

from .full_disk import full_after


def test_it_appears_at_the_end(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    with atomic_file(path) as temporary:
        temporary.write_text("whole")
        assert not path.exists()
    assert path.read_text() == "whole"
    assert list(tmp_path.iterdir()) == [path]


def test_a_failure_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(KeyError), atomic_file(tmp_path / "a.txt") as temporary:
        temporary.write_text("half")
        raise KeyError
    assert list(tmp_path.iterdir()) == []


def test_a_failure_leaves_what_was_there(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("old")
    with pytest.raises(OSError), full_after(10), atomic_file(path, overwrite=True) as temporary:
        temporary.write_text("new" * 10)
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_it_overwrites_only_when_asked(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("old")
    with pytest.raises(FileExistsError, match=r"a\.txt exists: choose another name"):
        AtomicFile(path)
    with atomic_file(path, overwrite=True) as temporary:
        temporary.write_text("new")
    assert path.read_text() == "new"


@pytest.mark.parametrize("links", [True, False])
def test_one_that_came_meanwhile_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, links: bool) -> None:
    if not links:
        monkeypatch.setattr(os, "link", no_links)
    path = tmp_path / "a.txt"
    with pytest.raises(FileExistsError, match="exists"), atomic_file(path) as temporary:
        temporary.write_text("mine")
        path.write_text("theirs")
    assert path.read_text() == "theirs"
    assert list(tmp_path.iterdir()) == [path]


def test_a_file_system_without_links_will_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "link", no_links)
    with atomic_file(tmp_path / "a.txt") as temporary:
        temporary.write_text("whole")
    assert (tmp_path / "a.txt").read_text() == "whole"
    assert len(list(tmp_path.iterdir())) == 1


def no_links(source: Path, target: Path) -> None:
    raise PermissionError("no links here")


def test_a_dangling_link_is_a_file_too(tmp_path: Path) -> None:
    (tmp_path / "a.txt").symlink_to("nowhere")
    with pytest.raises(FileExistsError):
        AtomicFile(tmp_path / "a.txt")


def test_its_place_is_checked(tmp_path: Path) -> None:
    with pytest.raises(IsADirectoryError, match="a file name is expected"):
        AtomicFile(tmp_path, overwrite=True)
    with pytest.raises(FileNotFoundError, match=r"there is no directory .*none; make it first"):
        AtomicFile(tmp_path / "none" / "a.txt")
