from __future__ import annotations

import errno
import math
import os
import signal
import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
import pytest

from realtime_engine.infra import mp4
from realtime_engine.infra.color import from_i420, to_i420
from realtime_engine.infra.mp4 import MissingCodecError, Mp4Writer

from .full_disk import full_after

FPS = Fraction(30000, 1001)


def film(frames: int = 12, height: int = 90, width: int = 160) -> list[np.ndarray]:
    """Shaded colors that move."""
    y, x = np.mgrid[0:height, 0:width]
    return [
        np.stack(
            [128 + 100 * np.sin(x / 40 + t / 4), 128 + 90 * np.cos(y / 30 - t / 5), 128 + 80 * np.sin((x + y) / 50)], -1
        ).astype(np.uint8)
        for t in range(frames)
    ]


def noise(frames: int, side: int = 128) -> list[np.ndarray]:
    dice = np.random.default_rng(0)
    return [dice.integers(0, 256, (side, side, 3)).astype(np.uint8) for _ in range(frames)]


def write(path: Path, pictures: list[np.ndarray], **options: bool) -> None:
    with Mp4Writer(path, FPS, **options) as writer:
        for pixels in pictures:
            writer.write(pixels)


def planes(path: Path) -> list[np.ndarray]:
    with av.open(str(path)) as container:
        return [frame.to_ndarray() for frame in container.decode(video=0)]


def psnr(a: np.ndarray, b: np.ndarray) -> float:
    error = float(np.mean((a.astype(float) - b.astype(float)) ** 2))
    return 10 * math.log10(255**2 / error) if error else math.inf


@pytest.mark.parametrize("fragmented", [False, True])
def test_a_video_survives_a_round_trip(tmp_path: Path, fragmented: bool) -> None:
    path, pictures = tmp_path / "film.mp4", film()
    write(path, pictures, fragmented=fragmented)
    decoded = planes(path)
    assert len(decoded) == len(pictures)
    for back, pixels in zip(decoded, pictures, strict=True):
        assert psnr(back, to_i420(pixels)) >= 40
        assert psnr(from_i420(back), pixels) >= 40
    assert list(tmp_path.iterdir()) == [path]


def test_every_frame_has_its_time(tmp_path: Path) -> None:
    write(tmp_path / "film.mp4", film())
    with av.open(str(tmp_path / "film.mp4")) as container:
        assert container.streams.video[0].average_rate == FPS
        times = [frame.pts * frame.time_base for frame in container.decode(video=0)]
    assert times == [at / FPS for at in range(12)]


def test_colors_are_labeled(tmp_path: Path) -> None:
    write(tmp_path / "film.mp4", film(2))
    with av.open(str(tmp_path / "film.mp4")) as container:
        context = container.streams.video[0].codec_context
        labels = context.colorspace, context.color_primaries, context.color_trc, context.color_range
    assert labels == (6, 6, 6, 1)


@pytest.mark.parametrize(("height", "width"), [(91, 160), (90, 161), (91, 161), (1, 1)])
def test_odd_sides_are_padded_by_one(tmp_path: Path, height: int, width: int) -> None:
    pictures = film(3, height, width)
    write(tmp_path / "film.mp4", pictures)
    back = planes(tmp_path / "film.mp4")[0]
    rows = height + height % 2
    assert back.shape == (rows * 3 // 2, width + width % 2)
    assert psnr(back[:rows], to_i420(pictures[0])[:rows]) >= 40


def test_the_index_is_in_front(tmp_path: Path) -> None:
    write(tmp_path / "film.mp4", film())
    content = (tmp_path / "film.mp4").read_bytes()
    assert 0 < content.index(b"moov") < content.index(b"mdat")
    assert b"moof" not in content


def test_a_plain_file_is_created_when_it_is_complete(tmp_path: Path) -> None:
    with Mp4Writer(tmp_path / "film.mp4", 30) as writer:
        writer.write(film(1)[0])
        assert not (tmp_path / "film.mp4").exists()
    assert (tmp_path / "film.mp4").exists()


def test_a_block_that_raises_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(KeyError), Mp4Writer(tmp_path / "film.mp4", 30) as writer:
        writer.write(film(1)[0])
        raise KeyError
    assert list(tmp_path.iterdir()) == []


def test_a_block_that_raises_leaves_the_fragments(tmp_path: Path) -> None:
    with pytest.raises(KeyError), Mp4Writer(tmp_path / "film.mp4", 30, fragmented=True) as writer:
        writer.write(film(1)[0])
        raise KeyError
    assert len(planes(tmp_path / "film.mp4")) == 1


def test_a_killed_process_leaves_a_playable_file(tmp_path: Path) -> None:
    program = """
import os, signal, sys
import numpy as np
from realtime_engine.infra.mp4 import Mp4Writer
writer = Mp4Writer(sys.argv[1], 10, fragmented=True)
for at in range(35):
    writer.write(np.full((32, 32, 3), at * 7, np.uint8))
os.kill(os.getpid(), signal.SIGKILL)
"""
    path = tmp_path / "film.mp4"
    done = subprocess.run([sys.executable, "-c", program, str(path)], check=False)
    assert done.returncode == -signal.SIGKILL
    assert len(planes(path)) >= 30


@pytest.mark.parametrize("fragmented", [False, True])
def test_without_pictures_there_is_no_file(tmp_path: Path, fragmented: bool) -> None:
    with pytest.raises(ValueError, match=r"no picture was written to .*film\.mp4"):
        write(tmp_path / "film.mp4", [], fragmented=fragmented)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("fragmented", [False, True])
def test_it_overwrites_only_when_asked(tmp_path: Path, fragmented: bool) -> None:
    path = tmp_path / "film.mp4"
    path.write_text("old")
    with pytest.raises(FileExistsError, match=r"film\.mp4 exists"):
        Mp4Writer(path, 30, fragmented=fragmented)
    assert path.read_text() == "old"
    write(path, film(3), fragmented=fragmented, overwrite=True)
    assert len(planes(path)) == 3


def test_a_full_disk_leaves_nothing(tmp_path: Path) -> None:
    path = tmp_path / "film.mp4"
    with full_after(50_000), pytest.raises(OSError, match=r"cannot write .*film\.mp4 after \d+ pictures") as caught:
        write(path, noise(20))
    assert caught.value.errno == errno.EFBIG
    assert list(tmp_path.iterdir()) == []


def test_a_disk_that_fills_at_the_end_leaves_nothing(tmp_path: Path) -> None:
    """What is written fits, but the index does not."""
    path = tmp_path / "film.mp4"
    write(path, film(12))
    size = path.stat().st_size
    path.unlink()
    with full_after(size - 100), pytest.raises(OSError, match=r"film\.mp4 after 12 pictures"):
        write(path, film(12))
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_leaves_the_fragments(tmp_path: Path) -> None:
    path = tmp_path / "film.mp4"
    with full_after(300_000), pytest.raises(OSError, match=r"film\.mp4"), Mp4Writer(path, 4, fragmented=True) as writer:
        for pixels in noise(40):
            writer.write(pixels)
    with av.open(str(path)) as container:
        packets = [packet for packet in container.demux(video=0) if packet.size and not packet.is_corrupt]
    assert len(packets) >= 4
    with pytest.raises(ValueError, match="closed"):
        writer.write(noise(1)[0])


def test_a_missing_directory_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="there is no directory"):
        Mp4Writer(tmp_path / "none" / "film.mp4", 30)


@pytest.mark.parametrize(
    "pixels",
    [
        np.zeros((4, 4), np.uint8),
        np.zeros((4, 4, 4), np.uint8),
        np.zeros((0, 4, 3), np.uint8),
        np.zeros((4, 4, 3), np.float32),
        [[[1, 2, 3]]],
    ],
)
def test_only_rgb_is_written(tmp_path: Path, pixels: np.ndarray) -> None:
    with Mp4Writer(tmp_path / "film.mp4", 30) as writer:
        with pytest.raises(ValueError, match="expects pictures of"):
            writer.write(pixels)
        writer.write(film(1)[0])
    assert len(planes(tmp_path / "film.mp4")) == 1


def test_all_pictures_have_one_size(tmp_path: Path) -> None:
    with Mp4Writer(tmp_path / "film.mp4", 30) as writer:
        writer.write(film(1)[0])
        with pytest.raises(ValueError, match=r"expects pictures of \(90, 160, 3\) uint8 RGB, got \(160, 90, 3\)"):
            writer.write(film(1, 160, 90)[0])


@pytest.mark.parametrize("fps", [0, -1, Fraction(-1, 2), 29.97, True])
def test_rates_are_fractions(tmp_path: Path, fps: object) -> None:
    with pytest.raises(ValueError, match="fps must be"):
        Mp4Writer(tmp_path / "film.mp4", fps)
    assert list(tmp_path.iterdir()) == []


def test_factors_out_of_range_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="crf must be from 0 to 51, got 52"):
        Mp4Writer(tmp_path / "film.mp4", 30, crf=52)


def test_a_missing_encoder_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mp4, "_ENCODER", "libnone")
    with pytest.raises(MissingCodecError, match=r"film\.mp4: this build of PyAV has no encoder 'libnone'"):
        Mp4Writer(tmp_path / "film.mp4", 30)
    assert list(tmp_path.iterdir()) == []


def test_closing_twice_is_harmless(tmp_path: Path) -> None:
    writer = Mp4Writer(tmp_path / "film.mp4", 30)
    writer.write(film(1)[0])
    writer.close()
    writer.close()
    writer.discard()
    assert os.listdir(tmp_path) == ["film.mp4"]
    with pytest.raises(ValueError, match="closed"):
        writer.write(film(1)[0])
