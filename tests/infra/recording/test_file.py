from __future__ import annotations

import errno
import os
import resource
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from realtime_engine.infra.recording.file import FragmentFile


@pytest.fixture
def small_disk() -> Iterator[int]:
    """No file of this process may grow beyond so many bytes; the system says so in the middle of a write."""
    before, handler = resource.getrlimit(resource.RLIMIT_FSIZE), signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (5000, before[1]))
    yield 5000
    resource.setrlimit(resource.RLIMIT_FSIZE, before)
    signal.signal(signal.SIGXFSZ, handler)


def test_what_is_appended_is_there_at_once(tmp_path: Path) -> None:
    file = FragmentFile(tmp_path / "a.mp4")
    file.append(b"abc")
    assert (tmp_path / "a.mp4").read_bytes() == b"abc"
    file.append(b"de")
    file.close()
    assert (file.size, (tmp_path / "a.mp4").read_bytes()) == (5, b"abcde")


def test_a_full_disk_leaves_whole_fragments(tmp_path: Path, small_disk: int) -> None:
    file = FragmentFile(tmp_path / "a.mp4")
    file.append(bytes(3000))
    with pytest.raises(OSError) as told:
        file.append(bytes(3000))
    assert told.value.errno == errno.EFBIG
    assert os.path.getsize(tmp_path / "a.mp4") == file.size == 3000
    file.append(bytes(2000))
    file.close()
    assert os.path.getsize(tmp_path / "a.mp4") == 5000


def test_a_file_that_nothing_was_written_to_is_not_kept(tmp_path: Path) -> None:
    FragmentFile(tmp_path / "a.mp4").close()
    assert list(tmp_path.iterdir()) == []
