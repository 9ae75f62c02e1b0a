"""Which chunk the recorder finds for each line, from what the engine puts out."""

from __future__ import annotations

import asyncio
import json
import logging
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from realtime_engine import Chunk
from realtime_engine.core.clock import MONOTONIC
from realtime_engine.core.messages import Detached, Failed, ResetDone, Stamps
from realtime_engine.infra.control_log import UNRECORDED, ControlRecorder, SessionLog
from realtime_engine.infra.controls.parsing import parse_message


class Scene:
    """A session whose engine is played by hand."""

    def __init__(self, folder: Path, **more: Any) -> None:
        self.folder = folder
        self.recorder = ControlRecorder(folder, "demo", None, **more)
        self.outbox = self.recorder.outbox(2)
        self.log: SessionLog = self.recorder.begin("s")

    def say(self, seq: int) -> int:
        """A message and its action; when that was received."""
        self.log.on_message(parse_message({"v": 1, "type": "blur", "seq": seq}))
        self.log.on_action()
        return MONOTONIC.now_ns()

    def chunk(self, seq: int, received_ns: int | None) -> None:
        self.outbox.put_nowait(Chunk("s", None, seq=seq, stamps=Stamps(received_ns)))

    def lines(self) -> list[tuple[str, int, Any]]:
        self.recorder.close()
        (path,) = self.folder.iterdir()
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        return [(line["message"]["type"], line["chunk"], line["message"].get("seq")) for line in lines[1:]]


def test_a_line_counts_for_the_chunk_that_shows_its_action(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    scene.log.on_attach({"seed": 1}, {})
    scene.chunk(0, None)
    first = scene.say(1)
    second = scene.say(2)
    third = scene.say(3)
    scene.chunk(1, first)
    scene.chunk(2, first)
    scene.chunk(3, third)
    assert second < third
    scene.say(4)  # nothing shows it any more
    scene.outbox.put_nowait(Detached("s"))
    assert scene.lines() == [
        ("attach", 0, None),
        ("blur", 1, 1),
        ("blur", 3, 2),
        ("blur", 3, 3),
        ("end", 4, None),
    ]


def test_chunks_that_the_outbox_drops_count(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    received = scene.say(1)
    for seq in range(8):
        scene.chunk(seq, received if seq > 2 else None)
    assert scene.outbox.statistics().dropped_total == 6
    assert scene.lines() == [("blur", 3, 1)]


def test_a_reset_counts_when_the_engine_says_that_it_is_done(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    before = scene.say(1)
    scene.log.record("reset", fields={})
    scene.log.record("act")
    scene.log.on_action()
    anew = MONOTONIC.now_ns()
    scene.chunk(0, before)
    scene.outbox.put_nowait(ResetDone("s", epoch=2))
    scene.chunk(1, None)
    scene.log.on_reset_reply(True)
    scene.log.on_action()
    scene.chunk(2, anew)
    scene.chunk(3, MONOTONIC.now_ns())
    expected = [("blur", 0, 1), ("reset", 1, None), ("act", 2, None), ("begun", 3, None)]
    assert scene.lines() == expected


def test_a_reset_that_is_refused_holds_nothing_up(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    scene.log.record("reset", fields={})
    scene.log.on_reset_reply(False)
    scene.log.on_action()
    scene.chunk(0, MONOTONIC.now_ns())
    assert scene.lines() == [("reset", 0, None), ("begun", 0, None)]


def test_a_session_that_failed_for_good_ends_its_log(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    scene.outbox.put_nowait(Failed("s", "oh", fatal=False))
    scene.chunk(0, None)
    scene.outbox.put_nowait(Failed("s", "oh", fatal=True))
    scene.say(1)
    scene.chunk(1, MONOTONIC.now_ns())
    assert scene.lines() == [("end", 1, None)]


def test_a_log_ended_at_the_last_event_is_complete(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    reader = scene.outbox.session("s")
    scene.chunk(0, None)
    on_output = scene.recorder.on_output

    def check_unread(item: Any) -> None:
        with pytest.raises(asyncio.QueueEmpty):  # the log records an item before it can be read
            reader.get_nowait()
        on_output(item)

    assert isinstance(reader.get_nowait(), Chunk)
    scene.recorder.on_output = check_unread  # type: ignore[method-assign]
    scene.outbox.put_nowait(Detached("s"))
    assert isinstance(reader.get_nowait(), Detached)
    scene.recorder.end("s")
    scene.recorder.end("s")
    assert scene.lines() == [("end", 1, None)]


def test_only_its_owner_reads_a_log(tmp_path: Path) -> None:
    scene = Scene(tmp_path / "new" / "folder")
    scene.recorder.close()
    (path,) = scene.folder.iterdir()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    head = json.loads(path.read_text())
    assert head["message"] == {"type": "log", "version": 1, "demo": "demo", "options": None}


def test_the_size_of_a_file_is_limited(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    scene = Scene(tmp_path, max_bytes=400)
    with caplog.at_level(logging.WARNING):
        for seq in range(20):
            scene.chunk(seq, scene.say(seq))
    lines = scene.lines()
    (path,) = tmp_path.iterdir()
    assert 0 < len(lines) < 20 and path.stat().st_size <= 400 and caplog.text.count("the size limit is reached") == 1


def test_a_log_with_too_many_pending_messages_ends(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    scene = Scene(tmp_path)
    with caplog.at_level(logging.WARNING):
        for seq in range(5000):
            scene.say(seq)
    scene.chunk(0, MONOTONIC.now_ns())
    assert scene.lines() == [] and "messages without a chunk" in caplog.text


def test_a_disk_that_fails_costs_the_log_only(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(file: int, data: bytes) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("realtime_engine.infra.control_log.log.os.write", full)
    with caplog.at_level(logging.ERROR):
        scene = Scene(tmp_path)
        scene.chunk(0, scene.say(0))
        scene.recorder.close()
    assert caplog.text.count("No space left on device") == 1


def test_a_folder_that_cannot_be_had_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match="file"):
        ControlRecorder(tmp_path / "file", "demo", None)


def test_an_unrecorded_session_keeps_nothing() -> None:
    calls: list[Callable[[], None]] = [
        lambda: UNRECORDED.on_attach({}, {}),
        lambda: UNRECORDED.record("act"),
        UNRECORDED.on_action,
        lambda: UNRECORDED.on_reset_reply(False),
    ]
    for call in calls:
        call()
    assert not UNRECORDED._pending
