from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import av
import pytest

from realtime_engine.infra.encoding import Codec
from realtime_engine.infra.publisher import FramePublisher
from realtime_engine.infra.recording import Recording, RecordingStore, StopReason
from realtime_engine.infra.recording.muxer import FragmentFile
from realtime_engine.infra.webrtc import SharedVideo
from realtime_engine.infra.webrtc.stream import StreamStats
from realtime_engine.infra.webrtc.tiers import Tier

from ..webrtc.support import Player, frame, picture, until
from .support import FRAME, FakeViewer, bar, play, shown, stream

ROOT = Path(__file__).parents[3]
Make = Callable[..., Recording]


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(2) as made:
        yield made


@pytest.fixture
async def make(tmp_path: Path, pool: ThreadPoolExecutor) -> AsyncIterator[Make]:
    made: list[Recording] = []

    def start(viewer: FakeViewer, *, max_bytes: int = 10**9, max_total_bytes: int = 10**9) -> Recording:
        (tmp_path / "session").mkdir(exist_ok=True)
        store = RecordingStore(tmp_path, max_bytes=max_bytes, max_total_bytes=max_total_bytes)
        made.append(Recording(viewer, store, "session", 1, pool))
        return made[-1]

    yield start
    for recording in made:
        await recording.stop(StopReason.ASKED)


def play_time(frames: list[av.VideoFrame]) -> float:
    return (frames[-1].pts - frames[0].pts) / 90_000


def files(folder: Path) -> dict[str, Path]:
    return {path.name: path for path in (folder / "session").iterdir()}


async def test_a_stopped_recording_has_every_frame(make: Make, tmp_path: Path) -> None:
    viewer = FakeViewer(*stream(25))
    recording = make(viewer)
    await until(lambda: viewer.is_drained)
    assert recording.reason is None
    await recording.stop(StopReason.ASKED)
    assert (recording.reason, viewer.closed, recording.parts) == (StopReason.ASKED, True, ["recording-1.mp4"])
    played = play(tmp_path / "session" / "recording-1.mp4")
    assert [frame.pts for frame in played] == [FRAME * n for n in range(25)]
    assert recording.bytes == (tmp_path / "session" / "recording-1.mp4").stat().st_size
    assert recording.seconds == pytest.approx(24 / 30)


async def test_the_file_is_playable_at_any_moment(make: Make, tmp_path: Path) -> None:
    viewer = FakeViewer()
    make(viewer)
    frames = list(stream(41))
    for start in range(0, 40, 10):
        viewer.put(frames[start : start + 10])
        await until(lambda: viewer.is_drained)
    viewer.put(frames[40:])
    path = tmp_path / "session" / "recording-1.mp4"
    await until(lambda: path.exists() and path.stat().st_size > 0 and len(play(path)) == 40)


async def test_another_size_starts_another_file(make: Make, tmp_path: Path) -> None:
    later = stream(12, width=96, height=64, start=20)
    viewer = FakeViewer(*stream(15), *later, *stream(5, start=40))
    recording = make(viewer)
    await until(lambda: viewer.is_drained)
    await recording.stop(StopReason.ASKED)
    parts = [play(tmp_path / "session" / name) for name in recording.parts]
    assert recording.parts == ["recording-1.mp4", "recording-1-2.mp4", "recording-1-3.mp4"]
    assert [(len(part), part[0].width, part[0].height) for part in parts] == [(15, 160, 96), (12, 96, 64), (5, 160, 96)]
    assert [part[0].pts for part in parts] == [0, 0, 0]
    assert recording.seconds == pytest.approx((14 + 11 + 4) / 30)


async def test_a_restarted_encoder_continues_in_the_file(make: Make, tmp_path: Path) -> None:
    viewer = FakeViewer(*stream(10), *stream(10, start=10))
    recording = make(viewer)
    await until(lambda: viewer.is_drained)
    await recording.stop(StopReason.ASKED)
    played = play(tmp_path / "session" / "recording-1.mp4")
    assert len(recording.parts) == 1 and len(played) == 20
    assert all(abs(shown(frame) - bar(n)) <= 2 for n, frame in enumerate(played))


@pytest.mark.parametrize("which", ["max_bytes", "max_total_bytes"])
async def test_a_recording_ends_before_it_exceeds_a_limit(make: Make, tmp_path: Path, which: str) -> None:
    whole = FakeViewer(*stream(40))
    reference = make(whole)
    await until(lambda: whole.is_drained)
    await reference.stop(StopReason.ASKED)
    (tmp_path / "session" / "recording-1.mp4").unlink()
    most = round(reference.bytes * 0.6)
    viewer = FakeViewer(*stream(40))
    recording = make(viewer, **{which: most})
    await until(lambda: recording.reason is not None)
    assert recording.reason is StopReason.FULL and viewer.closed
    path = tmp_path / "session" / "recording-1.mp4"
    assert path.stat().st_size <= most
    assert len(play(path)) == 20


async def test_no_file_remains_without_room_for_a_fragment(make: Make, tmp_path: Path) -> None:
    recording = make(FakeViewer(*stream(40)), max_bytes=50)
    await until(lambda: recording.reason is not None)
    assert recording.reason is StopReason.FULL
    assert files(tmp_path) == {}


async def test_a_disk_failure_ends_a_recording_that_stays_playable(
    make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    whole, append = 0, FragmentFile.append

    def fail_at_last(file: FragmentFile, fragment: bytes) -> None:
        nonlocal whole
        whole += 1
        if whole == 3:
            raise OSError(28, "No space left on device")
        append(file, fragment)

    monkeypatch.setattr(FragmentFile, "append", fail_at_last)
    viewer = FakeViewer(*stream(41))
    recording = make(viewer)
    await until(lambda: recording.reason is not None)
    assert recording.reason is StopReason.FAILED and viewer.closed
    assert "No space left" in caplog.text
    assert len(play(tmp_path / "session" / "recording-1.mp4")) == 20


async def test_the_end_of_the_session_completes_a_recording(make: Make, tmp_path: Path) -> None:
    viewer = FakeViewer(*stream(5))
    recording = make(viewer)
    viewer.end()
    await until(lambda: recording.reason is not None)
    assert recording.reason is StopReason.SESSION_OVER
    assert len(play(tmp_path / "session" / "recording-1.mp4")) == 5


async def test_a_broken_encoder_completes_a_recording(make: Make, tmp_path: Path) -> None:
    viewer = FakeViewer(*stream(5))
    recording = make(viewer)
    viewer.end(RuntimeError("the encoder broke"))
    await until(lambda: recording.reason is not None)
    assert recording.reason is StopReason.FAILED
    assert len(play(tmp_path / "session" / "recording-1.mp4")) == 5


async def test_a_recording_stopped_before_its_first_frame_leaves_no_file(make: Make, tmp_path: Path) -> None:
    recording = make(FakeViewer())
    await recording.stop(StopReason.UNATTENDED)
    await recording.stop(StopReason.ASKED)
    assert recording.reason is StopReason.UNATTENDED
    assert files(tmp_path) == {}


# -- with the encode that viewers share


async def test_a_recording_shares_the_encode_of_a_viewer(tmp_path: Path, pool: ThreadPoolExecutor) -> None:
    (tmp_path / "session").mkdir()
    source = FramePublisher()
    video = SharedVideo(source, fps=50, executor=pool)
    store = RecordingStore(tmp_path, max_bytes=10**9, max_total_bytes=10**9)
    viewer = video.add_viewer(Codec.H264)
    async with Player(source) as player:
        await viewer.next()
        recording = Recording(video.add_viewer(Codec.H264, blind=True), store, "session", 1, pool)
        while recording.seconds < 0.3:
            await viewer.next()
        await recording.stop(StopReason.ASKED)
    stats: StreamStats = video.stats[Codec.H264, Tier.FULL]
    assert sum(stats.frames_encoded for stats in video.stats.values()) <= len(player.pictures) + 1
    assert stats.viewers == 1 and not stats.losses
    viewer.close()
    await video.close()
    played = play(tmp_path / "session" / "recording-1.mp4")
    assert 3 <= len(played) <= stats.frames_encoded
    assert play_time(played) >= 0.3


async def test_a_reset_continues_in_the_file(tmp_path: Path, pool: ThreadPoolExecutor) -> None:
    (tmp_path / "session").mkdir()
    source = FramePublisher()
    video = SharedVideo(source, fps=50, executor=pool)
    store = RecordingStore(tmp_path, max_bytes=10**9, max_total_bytes=10**9)
    recording = Recording(video.add_viewer(Codec.H264, blind=True), store, "session", 1, pool)
    for number in range(6):
        source.publish(frame(number, picture(number), epoch=1 + number // 3))
        recorded = recording.seconds if number else -1.0
        await until(lambda recorded=recorded: bool(recording.parts) and recording.seconds > recorded)
    await recording.stop(StopReason.ASKED)
    await video.close()
    played = play(tmp_path / "session" / "recording-1.mp4")
    assert recording.parts == ["recording-1.mp4"]
    assert [shown(frame) for frame in played][-1] == pytest.approx(bar(5, 320), abs=2)
    assert sorted(frame.pts for frame in played) == [frame.pts for frame in played]


# -- the end of the process

KILLED = """
import asyncio, sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from realtime_engine.infra.recording import Recording, RecordingStore
from tests.infra.recording.support import FakeViewer, stream

async def main():
    folder = Path(sys.argv[1])
    (folder / "session").mkdir()
    store = RecordingStore(folder, max_bytes=10**9, max_total_bytes=10**9)
    viewer = FakeViewer(*stream(45))
    recording = Recording(viewer, store, "session", 1, ThreadPoolExecutor(1))
    while not viewer.is_drained:
        await asyncio.sleep(0.01)
    sys.stdout.write("recorded\\n")
    sys.stdout.flush()
    await asyncio.sleep(60)

asyncio.run(main())
"""


def test_a_killed_process_leaves_a_playable_file(tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"}
    command = [sys.executable, "-c", KILLED, str(tmp_path)]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "recorded\n"
        process.kill()
        assert process.wait(10) == -signal.SIGKILL
    played = play(tmp_path / "session" / "recording-1.mp4")
    assert len(played) == 40, "all but the fragment that was not complete"
    assert all(abs(shown(frame) - bar(n)) <= 2 for n, frame in enumerate(played))
