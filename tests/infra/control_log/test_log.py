from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import pytest

from realtime_engine.infra.control_log import LogError, read_log

WALK = {"v": 1, "type": "controls", "seq": 1, "keys": ["KeyW"]}


def log_of(tmp_path: Path, *lines: Any, end: str = "\n") -> Path:
    path = tmp_path / "walk.jsonl"
    path.write_text("\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines) + end)
    return path


def entry(t: float, message: Any = WALK, **more: Any) -> dict[str, Any]:
    return {"t": t, "message": message, **more}


def test_a_recorded_log_says_which_chunk(tmp_path: Path) -> None:
    head = {"type": "log", "version": 1, "demo": "maze", "options": {"fps": 60.0}}
    path = log_of(tmp_path, entry(0, head, chunk=0), entry(0.5, chunk=3), "", entry(0.4, {"type": "end"}, chunk=7))
    log = read_log(path)
    assert (log.demo, log.options) == ("maze", {"fps": 60.0})
    assert [(entry.kind, entry.first_chunk(30), entry.line) for entry in log.entries] == [
        ("controls", 3, 2),
        ("end", 7, 4),
    ]
    assert log.chunks(30) == 7


def test_a_log_by_hand_needs_times_only(tmp_path: Path) -> None:
    log = read_log(log_of(tmp_path, entry(0), entry(0.1), entry(0.11)))
    assert log.demo is None
    assert [entry.first_chunk(30) for entry in log.entries] == [0, 3, 4]
    assert log.chunks(30) == 5


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("nonsense", "line 2: not JSON"),
        ("[1]", 'line 2: expected an object with "t", "message"'),
        (entry(0, more=1), 'line 2: expected an object with "t", "message"'),
        (entry(-1), "line 2: t must be seconds of 0 or more, got -1"),
        ('{"t": Infinity, "message": {}}', "line 2: t must be seconds"),
        (entry(0, chunk=-1), "line 2: chunk must be an integer of 0 or more, got -1"),
        (entry(0, chunk=True), "line 2: chunk must be an integer"),
        (entry(0, "walk"), "line 2: message must be an object"),
        (entry(0, {"v": 1, "type": "jump"}), "line 2: message: expected one of controls"),
        (entry(0, {**WALK, "v": 2}), "line 2: message: expected protocol version 1"),
        (entry(0, {"type": "log", "version": 9}), "version 9, this program reads 1"),
    ],
)
def test_a_bad_line_is_named(tmp_path: Path, line: Any, complaint: str) -> None:
    with pytest.raises(LogError, match=r"walk\.jsonl") as caught:
        read_log(log_of(tmp_path, entry(0), line))
    assert complaint in str(caught.value)


def test_lines_out_of_order_are_refused(tmp_path: Path) -> None:
    with pytest.raises(LogError, match="line 2: expected lines in the order"):
        read_log(log_of(tmp_path, entry(0, chunk=4), entry(1, chunk=3)))
    with pytest.raises(LogError, match="line 2: expected lines in the order"):
        read_log(log_of(tmp_path, entry(1), entry(0.5)))


def test_an_incomplete_last_line_is_skipped(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        log = read_log(log_of(tmp_path, entry(0), '{"t": 1, "mess', end=""))
    assert len(log.entries) == 1 and "is incomplete" in caplog.text


def test_an_empty_log_has_no_chunks(tmp_path: Path) -> None:
    assert read_log(log_of(tmp_path, end="")).chunks(30) == 0
