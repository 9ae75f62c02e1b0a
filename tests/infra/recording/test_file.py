from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from realtime_engine.infra.recording.file import FragmentFile


def test_what_is_appended_is_there_at_once(tmp_path: Path) -> None:
    file = FragmentFile(tmp_path / "a.mp4")
    file.append(b"abc")
    assert (tmp_path / "a.mp4").read_bytes() == b"abc"
    file.append(b"de")
    file.close()
    assert (file.size, (tmp_path / "a.mp4").read_bytes()) == (5, b"abcde")


ON_A_SMALL_DISK = """
import errno, os, resource, signal, sys
from pathlib import Path
from realtime_engine.infra.recording.file import FragmentFile

signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (5000, 5000))  # the system says so in the middle of a write
path = Path(sys.argv[1])
file = FragmentFile(path)
file.append(bytes(3000))
try:
    file.append(bytes(3000))
except OSError as told:
    assert told.errno == errno.EFBIG
else:
    raise AssertionError("nothing was said")
assert os.path.getsize(path) == file.size == 3000
file.append(bytes(2000))
file.close()
assert os.path.getsize(path) == 5000
"""


def test_a_full_disk_leaves_whole_fragments(tmp_path: Path) -> None:
    # in a process of its own: the limit would hold for the tests' report too
    program = [sys.executable, "-c", ON_A_SMALL_DISK, str(tmp_path / "a.mp4")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(program, env=environment, capture_output=True, text=True, timeout=30)
    assert done.returncode == 0, done.stderr


def test_a_file_that_nothing_was_written_to_is_not_kept(tmp_path: Path) -> None:
    FragmentFile(tmp_path / "a.mp4").close()
    assert list(tmp_path.iterdir()) == []
