from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import av
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from realtime_engine.infra.mp4 import MissingCodecError, Mp4Writer
from realtime_engine.infra.runner_io import Cache, InputError, load_first_frame, load_video
from realtime_engine.infra.runner_io.videos import _resampled

from . import films
from .films import film, pictures, sound
from .web import web


def psnr(a: np.ndarray, b: np.ndarray) -> float:
    return float(10 * np.log10(255**2 / np.mean((a.astype(float) - b.astype(float)) ** 2)))


def light(pixels: np.ndarray) -> int:
    """Which of ``films.pictures`` it is, by its grey corner."""
    return round((int(pixels[2, -3].mean()) - 20) / 20)


@pytest.mark.parametrize("name", ["a.mp4", "a.mkv", "a.mov", "a.avi", "a.ts"])
def test_a_film_comes_back(tmp_path: Path, name: str) -> None:
    video = load_video(film(tmp_path / name))
    assert video.fps == films.FPS
    assert video.frames.shape == (6, 32, 48, 3)
    for back, pixels in zip(video.frames, pictures(), strict=True):
        assert psnr(back, pixels) >= 24  # hard edges of colour


def test_what_the_writer_writes_comes_back(tmp_path: Path) -> None:
    y, x = np.mgrid[0:64, 0:96]
    shown = [
        np.stack(
            [128 + 100 * np.sin(x / 30 + t), 128 + 90 * np.cos(y / 20), 128 + 80 * np.sin((x + y) / 40)], -1
        ).astype(np.uint8)
        for t in range(5)
    ]
    with Mp4Writer(tmp_path / "a.mp4", Fraction(30000, 1001)) as writer:
        for pixels in shown:
            writer.write(pixels)
    video = load_video(tmp_path / "a.mp4")
    assert video.fps == Fraction(30000, 1001)
    for back, pixels in zip(video.frames, shown, strict=True):
        assert psnr(back, pixels) >= 40


def test_a_url_will_do(tmp_path: Path) -> None:
    with web() as site:
        url = site.put("a.mp4", film(tmp_path / "a.mp4").read_bytes())
        assert len(load_video(url, cache=Cache(tmp_path / "cache")).frames) == 6


def test_a_gif_is_a_film(tmp_path: Path) -> None:
    assert len(load_video(film(tmp_path / "a.gif", codec="gif", pix_fmt="rgb8")).frames) == 6


def test_the_first_picture_is_had_without_the_others(tmp_path: Path) -> None:
    """Everything behind the first tenth is lost, and nobody notices."""
    dice = np.random.default_rng(0)
    noise = [dice.integers(0, 256, (64, 64, 3)).astype(np.uint8) for _ in range(40)]
    path = film(tmp_path / "a.mp4", noise, options={"movflags": "+faststart"})
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 5])
    assert load_first_frame(path).shape == (64, 64, 3)
    with pytest.raises(InputError, match=r"a\.mp4: it is broken (after|or cut off within)"):
        load_video(path)


def test_no_more_is_read_than_is_wanted(tmp_path: Path) -> None:
    video = load_video(film(tmp_path / "a.mp4"), max_frames=2)
    assert len(video.frames) == 2
    assert video.fps == films.FPS
    assert len(load_video(film(tmp_path / "a.mp4"), max_frames=1).frames) == 1


FIXED = 1 << 16
MATRICES = {
    "upright": ((1, 0, 0, 1), lambda pixels: pixels),
    "quarter": ((0, 1, -1, 0), lambda pixels: np.rot90(pixels, -1)),
    "half": ((-1, 0, 0, -1), lambda pixels: np.rot90(pixels, 2)),
    "three quarters": ((0, -1, 1, 0), lambda pixels: np.rot90(pixels, 1)),
    "mirrored": ((-1, 0, 0, 1), lambda pixels: pixels[:, ::-1]),
    "upside down": ((1, 0, 0, -1), lambda pixels: pixels[::-1]),
    "across": ((0, 1, 1, 0), lambda pixels: pixels.swapaxes(0, 1)),
}


@pytest.mark.parametrize("name", MATRICES)
def test_a_camera_may_be_held_anyhow(tmp_path: Path, name: str) -> None:
    matrix, turn = MATRICES[name]
    path = film(tmp_path / "a.mp4", matrix=[value * FIXED for value in matrix])
    wanted = turn(pictures()[0])
    for loaded in (load_first_frame(path), load_video(path).frames[0]):
        assert loaded.shape == wanted.shape
        assert loaded.flags.c_contiguous
        assert psnr(loaded, wanted) >= 24  # hard edges of colour


def test_pixels_become_square(tmp_path: Path) -> None:
    loaded = load_first_frame(film(tmp_path / "a.mp4", pixel_width=Fraction(4, 3)))
    assert loaded.shape == (32, 64, 3)
    assert psnr(loaded, pictures(1, width=64)[0]) >= 20


def test_other_angles_are_refused(tmp_path: Path) -> None:
    path = film(tmp_path / "a.mp4", matrix=[46341, 46341, -46341, 46341])
    with pytest.raises(InputError, match=r"a\.mp4: its rotation is not a multiple of 90 degrees; export it upright"):
        load_video(path)


@pytest.mark.parametrize(("transfer", "name"), [(16, "PQ"), (18, "HLG")])
def test_hdr_is_refused(tmp_path: Path, transfer: int, name: str) -> None:
    path = film(tmp_path / "a.mp4", transfer=transfer)
    for load in (load_video, load_first_frame):
        with pytest.raises(InputError, match=rf"a\.mp4: it is HDR \({name}\).*; map it to SDR first: ffmpeg .*tonemap"):
            load(path)


UNEVEN = [Fraction(ms, 1000) for ms in (0, 100, 150, 500, 600, 700)]


def test_a_rate_that_varies_wants_a_decision(tmp_path: Path) -> None:
    path = film(tmp_path / "a.mkv", times=UNEVEN)
    with pytest.raises(InputError, match=r"a\.mkv: its frame rate varies \(frame 1 at .* s\); say with fps"):
        load_video(path)
    video = load_video(path, fps=10)
    assert video.fps == 10
    assert [light(pixels) for pixels in video.frames] == [0, 1, 2, 2, 2, 3, 4, 5]


def test_a_clock_of_milliseconds_is_steady_enough(tmp_path: Path) -> None:
    times = [Fraction(round(at * 1000 / 30), 1000) for at in range(6)]
    assert abs(load_video(film(tmp_path / "a.mkv", times=times)).fps - 30) < 1


def test_another_rate_repeats_and_leaves_out(tmp_path: Path) -> None:
    path = film(tmp_path / "a.mp4")
    assert [light(pixels) for pixels in load_video(path, fps=20).frames] == [0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5]
    assert [light(pixels) for pixels in load_video(path, fps=5).frames] == [0, 2, 4]
    assert [light(pixels) for pixels in load_video(path, fps=20, max_frames=3).frames] == [0, 0, 1]


@given(
    st.lists(st.integers(1, 20), min_size=1, max_size=9),
    st.fractions(min_value=Fraction(1, 9), max_value=2, max_denominator=9),
    st.integers(0, 50),
)
def test_every_tick_shows_what_is_shown_then(steps: list[int], fps: Fraction, begin: int) -> None:
    times = [Fraction(begin + sum(steps[:at])) for at in range(len(steps))]
    frames = [np.full((1, 1, 3), at, np.uint8) for at in range(len(steps))]
    got = [(time, int(pixels[0, 0, 0])) for time, pixels in _resampled(zip(times, frames, strict=True), fps)]
    end = times[-1] + (times[-1] - times[-2] if len(times) > 1 else 1 / fps)
    ticks = [begin + tick / fps for tick in range(600) if begin + tick / fps < end]
    assert got == [(tick, max(at for at, time in enumerate(times) if time <= tick)) for tick in ticks]


def test_sound_alone_is_refused(tmp_path: Path) -> None:
    for load in (load_video, load_first_frame):
        with pytest.raises(InputError, match=r"a\.mp4: there is no video in it, only audio; give a video file"):
            load(sound(tmp_path / "a.mp4"))


def test_a_film_without_pictures_is_refused(tmp_path: Path) -> None:
    path = film(tmp_path / "a.mp4", options={"movflags": "frag_keyframe+empty_moov"})
    content = path.read_bytes()
    path.write_bytes(content[: content.index(b"moof") - 4])
    for load in (load_video, load_first_frame):
        with pytest.raises(InputError, match=r"a\.mp4: it has no frame; give"):
            load(path)


@pytest.mark.parametrize("size", [0, 20, 1000])
def test_a_film_without_its_end_is_refused(tmp_path: Path, size: int) -> None:
    path = film(tmp_path / "a.mp4")
    path.write_bytes(path.read_bytes()[:size])
    with pytest.raises(InputError, match=r"a\.mp4: it is not a video, or its beginning or end is missing"):
        load_video(path)


def test_what_is_no_film_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.mp4").write_text("words\n" * 100)
    with pytest.raises(InputError, match=r"a\.mp4: it is not a video"):
        load_first_frame(tmp_path / "a.mp4")


def test_broken_pictures_are_noticed(tmp_path: Path) -> None:
    dice = np.random.default_rng(0)
    path = film(tmp_path / "a.mp4", [dice.integers(0, 256, (64, 64, 3)).astype(np.uint8) for _ in range(20)])
    content = bytearray(path.read_bytes())
    begin = content.index(b"mdat") + 3000
    content[begin : begin + 20_000] = bytes(20_000)
    path.write_bytes(content)
    with pytest.raises(InputError, match=r"a\.mp4: it is broken (after|or cut off within) \d+"):
        load_video(path)


@pytest.mark.parametrize("name", ["a.mp4", "a.mkv", "a.avi", "a.gif"])
def test_broken_bytes_are_refused_or_read_and_nothing_else(tmp_path: Path, name: str) -> None:
    whole = film(tmp_path / name, **({"codec": "gif", "pix_fmt": "rgb8"} if name == "a.gif" else {})).read_bytes()
    dice = np.random.default_rng(0)
    for _ in range(30):
        content = bytearray(whole)
        for at in dice.integers(0, len(content), 6):
            content[at] = dice.integers(0, 256)
        (tmp_path / name).write_bytes(content)
        try:
            load_video(tmp_path / name, fps=10, max_frames=20)
        except (InputError, MissingCodecError) as error:
            assert name in str(error)


def test_a_playlist_opens_no_other_file(tmp_path: Path) -> None:
    secret = film(tmp_path / "a.ts")
    (tmp_path / "b.m3u8").write_text(f"#EXTM3U\n#EXT-X-TARGETDURATION:1\n#EXTINF:0.6,\n{secret}\n#EXT-X-ENDLIST\n")
    (tmp_path / "b.txt").write_text(f"ffconcat version 1.0\nfile '{secret}'\n")
    for name in ("b.m3u8", "b.txt"):
        with pytest.raises(InputError, match=name):
            load_first_frame(tmp_path / name)


def test_a_codec_that_nobody_knows_is_named(tmp_path: Path) -> None:
    path = film(tmp_path / "a.mp4")
    path.write_bytes(path.read_bytes().replace(b"avc1", b"zzzz").replace(b"avcC", b"zzzC"))
    with pytest.raises(MissingCodecError, match=r"a\.mp4: PyAV has no decoder for it; convert it to H\.264"):
        load_video(path)


def test_what_is_too_large_is_refused(tmp_path: Path) -> None:
    path = film(tmp_path / "a.mp4")
    size = 32 * 48 * 3
    assert len(load_video(path, max_bytes=size * 6).frames) == 6
    with pytest.raises(
        InputError, match=rf"a\.mp4: it takes more than {size * 3} bytes from frame 3 on; set max_frames"
    ):
        load_video(path, max_bytes=size * 3)
    assert len(load_video(path, max_bytes=size * 3, max_frames=3).frames) == 3


def test_huge_pictures_are_refused_before_they_are_decoded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("realtime_engine.infra.runner_io.videos.MAX_PIXELS", 1000)
    with pytest.raises(InputError, match=r"a\.mp4: it is too large \(48 x 32\); scale it down to 1000 pixels"):
        load_first_frame(film(tmp_path / "a.mp4"))


def test_a_size_that_changes_is_refused(tmp_path: Path) -> None:
    parts = []
    for at, height in enumerate((32, 48)):
        film(tmp_path / f"{at}.h264", pictures(2, height))
        parts.append((tmp_path / f"{at}.h264").read_bytes())
    with av.open(str(tmp_path / "a.ts"), "w") as target:
        stream = target.add_stream("libx264", rate=10)
        stream.height, stream.width, stream.pix_fmt = 32, 48, "yuv420p"
        for at, part in enumerate(parts):
            packet = av.Packet(part)
            packet.stream, packet.time_base, packet.is_keyframe = stream, Fraction(1, 10), True
            packet.pts = packet.dts = at
            target.mux(packet)
    with pytest.raises(InputError, match=r"a\.ts: its size changes from \(32, 48, 3\) to \(48, 48, 3\)"):
        load_video(tmp_path / "a.ts")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"fps": 0}, "fps is"),
        ({"fps": 29.97}, "fps is a whole number or a Fraction"),
        ({"max_frames": 0}, "max_frames is at"),
    ],
)
def test_options_are_checked(tmp_path: Path, options: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        load_video(film(tmp_path / "a.mp4"), **options)


def test_what_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"none\.mp4: there is no such file"):
        load_video(tmp_path / "none.mp4")
