from __future__ import annotations

import json
import math
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from realtime_engine.infra.runner_io import STATS_SCHEMA, STATS_VERSION, output_path, read_stats, write_stats
from realtime_engine.infra.runner_io.outputs import to_json

from ..full_disk import full_after


def test_the_directory_is_made(tmp_path: Path) -> None:
    path = output_path(tmp_path / "a" / "b", "maze.mp4")
    assert path == tmp_path / "a" / "b" / "maze.mp4"
    assert path.parent.is_dir()


def test_what_exists_is_kept(tmp_path: Path) -> None:
    (tmp_path / "maze.mp4").touch()
    with pytest.raises(FileExistsError, match=r"maze\.mp4 exists"):
        output_path(tmp_path, "maze.mp4")
    assert output_path(tmp_path, "maze.mp4", overwrite=True) == tmp_path / "maze.mp4"


@pytest.mark.parametrize("name", ["", ".", "..", "../a", "/a", "a/b", "a\\b", "a\0b"])
def test_a_name_leads_nowhere_else(tmp_path: Path, name: str) -> None:
    with pytest.raises(ValueError, match="the name of a file"):
        output_path(tmp_path, name)


def test_a_file_is_no_directory(tmp_path: Path) -> None:
    (tmp_path / "out").touch()
    for folder in ("out", "out/more"):
        with pytest.raises(FileExistsError, match="a file and no directory"):
            output_path(tmp_path / folder, "maze.mp4")


def test_the_schema_comes_first(tmp_path: Path) -> None:
    path = write_stats(tmp_path / "stats.json", {"frames": 3})
    document = json.loads(path.read_text())
    assert list(document.items()) == [("schema", STATS_SCHEMA), ("version", STATS_VERSION), ("frames", 3)]
    assert read_stats(path) == {"frames": 3}


@pytest.mark.parametrize(
    ("value", "written"),
    [
        (math.nan, None),
        (-math.inf, None),
        (np.float32(0.5), 0.5),
        (np.float64("nan"), None),
        (np.float16("inf"), None),
        (np.int64(7), 7),
        (np.bool_(True), True),
        (np.array([[1.0, np.nan]]), [[1.0, None]]),
        (np.array(3), 3),
        (Fraction(1, 4), 0.25),
        (Path("a/b"), "a/b"),
        ((1, 2), [1, 2]),
        ({"b", "a"}, ["a", "b"]),
        ({1: {np.int32(2): None}}, {"1": {"2": None}}),
        (True, True),
        ("ünï", "ünï"),
    ],
)
def test_numbers_of_all_kinds(tmp_path: Path, value: Any, written: Any) -> None:
    path = write_stats(tmp_path / "stats.json", {"value": value})
    assert read_stats(path) == {"value": written}


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
        max_leaves=20,
    )
)
def test_whatever_is_json_already_stays_but_for_what_is_no_number(value: Any) -> None:
    again = json.loads(json.dumps(to_json(value), allow_nan=False))
    assert again == json.loads(json.dumps(value), parse_constant=lambda _: None)


@pytest.mark.parametrize(
    ("stats", "where"),
    [
        ({"a": [0, {"b": object()}]}, r"stats\.a\[1\]\.b is a object"),
        ({"a": b"bytes"}, r"stats\.a is a bytes"),
        ({"a": 1j}, r"stats\.a is a complex"),
        ({"a": {(1, 2): 3}}, r"stats\.a has the key \(1, 2\)"),
    ],
)
def test_what_cannot_be_written_is_found(tmp_path: Path, stats: dict[str, Any], where: str) -> None:
    with pytest.raises(TypeError, match=where):
        write_stats(tmp_path / "stats.json", stats)
    assert list(tmp_path.iterdir()) == []


def test_the_schema_is_not_for_others(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="'version'"):
        write_stats(tmp_path / "stats.json", {"version": 2})


def test_it_overwrites_only_when_asked(tmp_path: Path) -> None:
    path = write_stats(tmp_path / "stats.json", {"frames": 1})
    with pytest.raises(FileExistsError):
        write_stats(path, {"frames": 2})
    assert read_stats(path) == {"frames": 1}
    write_stats(path, {"frames": 2}, overwrite=True)
    assert read_stats(path) == {"frames": 2}


def test_a_full_disk_leaves_nothing(tmp_path: Path) -> None:
    with full_after(100), pytest.raises(OSError, match=r"cannot write .*stats\.json: File too large; free"):
        write_stats(tmp_path / "stats.json", {"a": "x" * 1000})
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", r"stats\.json is not JSON"),
        ("[]", r"stats\.json contains no statistics"),
        ('{"schema": "other"}', "contains no statistics"),
        (f'{{"schema": "{STATS_SCHEMA}", "version": 99}}', "of version 99, this program reads 1"),
    ],
)
def test_other_files_are_refused(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "stats.json").write_text(text)
    with pytest.raises(ValueError, match=message):
        read_stats(tmp_path / "stats.json")
