from __future__ import annotations

import itertools
import os
import subprocess
import sys
from pathlib import Path

import pytest

from realtime_engine.infra.recording.muxer import FragmentFile, FragmentMuxer, parameter_sets, picture_size

from .support import FRAME, bar, play, shown, stream


def test_the_file_has_the_encoded_frames_and_times() -> None:
    muxer = FragmentMuxer(160, 96)
    frames = list(stream(25))
    data = b"".join([*(muxer.add(frame) for frame in frames), muxer.finish()])
    played = play(data)
    assert [frame.pts for frame in played] == [FRAME * n for n in range(25)]
    assert {(frame.width, frame.height, frame.time_base.denominator) for frame in played} == {(160, 96, 90_000)}
    assert all(abs(shown(frame) - bar(n)) <= 2 for n, frame in enumerate(played))
    assert muxer.seconds == pytest.approx(24 / 30)


def test_a_keyframe_completes_a_playable_fragment() -> None:
    muxer = FragmentMuxer(160, 96)
    made = [muxer.add(frame) for frame in stream(31)]
    assert [n for n, fragment in enumerate(made) if fragment] == [10, 20, 30]
    for count in (1, 2, 3):
        whole = b"".join(itertools.islice((fragment for fragment in made if fragment), count))
        assert len(play(whole)) == 10 * count


def test_irregular_times_are_kept() -> None:
    times = [500, 501, 9_000, 9_000 + 90_000 * 3600, 9_001 + 90_000 * 3600]
    muxer = FragmentMuxer(160, 96)
    data = b"".join([*(muxer.add(frame) for frame in stream(5, gop=2, pts=times)), muxer.finish()])
    assert [frame.pts for frame in play(data)] == [time - 500 for time in times]


def test_the_shared_packet_is_not_modified() -> None:
    (frame,) = stream(1)
    before = (frame.packet.pts, frame.packet.time_base, bytes(frame.packet))
    muxer = FragmentMuxer(160, 96)
    muxer.add(frame)
    muxer.finish()
    assert (frame.packet.pts, frame.packet.time_base, bytes(frame.packet)) == before


def test_parameter_sets_are_found_after_any_start_code() -> None:
    data = b"\0\0\0\1\x67abc\0\0\1\x68d\0\0\1\x65picture\0\0\1\x41more\0\0"
    assert parameter_sets(data) == (b"\x67abc", b"\x68d")
    assert parameter_sets(b"\0\0\1\x41only") == ()


def test_parameter_sets_change_only_with_the_size() -> None:
    sets = {
        size: {parameter_sets(bytes(frame.packet)) for frame in stream(21, width=size[0], height=size[1])} - {()}
        for size in ((160, 96), (96, 64))
    }
    assert all(len(found) == 1 for found in sets.values())
    assert sets[160, 96] != sets[96, 64]


def test_the_size_excludes_padding() -> None:
    (frame,) = stream(1, width=150, height=90)
    assert picture_size(bytes(frame.packet)) == (150, 90)


def test_an_undecodable_keyframe_has_no_size() -> None:
    inter = list(stream(2))[1]
    with pytest.raises(ValueError, match="keyframe that can be decoded"):
        picture_size(bytes(inter.packet))


def test_an_appended_fragment_is_written_at_once(tmp_path: Path) -> None:
    file = FragmentFile(tmp_path / "a.mp4")
    file.append(b"abc")
    assert (tmp_path / "a.mp4").read_bytes() == b"abc"
    file.append(b"de")
    file.close()
    assert (file.size, (tmp_path / "a.mp4").read_bytes()) == (5, b"abcde")


ON_A_SMALL_DISK = """
import errno, os, resource, signal, sys
from pathlib import Path
from realtime_engine.infra.recording.muxer import FragmentFile

signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (5000, 5000))  # the system says so in the middle of a write
path = Path(sys.argv[1])
file = FragmentFile(path)
file.append(bytes(3000))
try:
    file.append(bytes(3000))
except OSError as error:
    assert error.errno == errno.EFBIG
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
    done = subprocess.run(program, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_an_empty_file_is_removed(tmp_path: Path) -> None:
    FragmentFile(tmp_path / "a.mp4").close()
    assert list(tmp_path.iterdir()) == []
