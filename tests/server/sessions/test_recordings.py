from __future__ import annotations

from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from realtime_engine.core.clock import MONOTONIC
from realtime_engine.infra.publisher import FramePublisher
from realtime_engine.infra.recording import RecordingRuns, RecordingStore
from realtime_engine.infra.webrtc import SharedVideo
from realtime_engine.server.sessions.engine_requests import SessionOver
from realtime_engine.server.sessions.recordings import Recordings

from ..support import until


class Scene:
    """The recordings of a session that is attended or not."""

    def __init__(self, folder: Path, pool: ThreadPoolExecutor) -> None:
        self.attended = True
        self.checks = 0
        self.video = SharedVideo(FramePublisher(), executor=pool)
        self.recordings = Recordings(
            RecordingStore(folder, max_bytes=10**9, max_total_bytes=10**9),
            "session",
            self.video,
            pool,
            attended_ns=self._attended_ns,
            idle_timeout_s=0.04,
        )

    def _attended_ns(self) -> int:
        self.checks += 1
        return MONOTONIC.now_ns() if self.attended else 0


@pytest.fixture
async def scene(tmp_path: Path) -> AsyncIterator[Scene]:
    with ThreadPoolExecutor(1) as pool:
        made = Scene(tmp_path, pool)
        yield made
        await made.recordings.close()
        await made.video.close()


async def test_a_recording_runs_while_its_session_is_attended(scene: Scene) -> None:
    await scene.recordings.start()
    await until(lambda: scene.checks >= 8)
    assert scene.recordings.is_running
    scene.attended = False
    await until(lambda: not scene.recordings.is_running)
    assert scene.recordings.describe()["reason"] == "unattended"


async def test_a_recording_can_start_after_one_that_ended(scene: Scene) -> None:
    await scene.recordings.start()
    with pytest.raises(RecordingRuns):
        await scene.recordings.start()
    scene.attended = False
    await until(lambda: not scene.recordings.is_running)
    scene.attended = True
    await scene.recordings.start()
    assert scene.recordings.is_running and scene.recordings.started == 2


async def test_no_recording_starts_after_the_session_has_ended(scene: Scene) -> None:
    await scene.recordings.start()
    await scene.recordings.close()
    assert scene.recordings.describe()["reason"] == "session-over"
    with pytest.raises(SessionOver):
        await scene.recordings.start()
