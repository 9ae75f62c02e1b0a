"""``run`` and ``bench`` from the command line to the files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from PIL import Image

from realtime_engine.cli.app import run
from realtime_engine.infra.offline import compare_films
from realtime_engine.infra.runner_io import load_video, read_stats

SMALL = ("--width", "64", "--height", "36", "--seed", "3")


def complaint(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    capsys.readouterr()
    assert run(arguments) == 2
    return " ".join(capsys.readouterr().err.split())


def write_log(path: Path) -> Path:
    walk = {"v": 1, "type": "controls", "seq": 1, "keys": ["KeyE"]}
    head = {"type": "log", "version": 1, "demo": "maze", "options": {"width": 64, "height": 36, "fps": 10.0}}
    lines = [
        {"t": 0, "chunk": 0, "message": head},
        {"t": 0, "chunk": 0, "message": {"type": "attach", "fields": {"prompt": "lava"}, "drawn": {"seed": 8}}},
        {"t": 0.5, "chunk": 3, "message": walk},
        {"t": 1.2, "chunk": 9, "message": {"type": "end"}},
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def test_a_run_writes_film_numbers_and_trace(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    assert run(["run", "maze", *SMALL, "--prompt", "ice", "--seconds", "0.4", "--out", str(out), "--trace"]) == 0
    assert "12 frames, 64x36" in capsys.readouterr().out
    stats = read_stats(out / "stats_maze.json")
    assert (stats["frames"], stats["fps"], stats["fields"]) == (12, 30, {"prompt": "ice", "seed": 3})
    assert stats["real_time_factor"] > 0 and stats["step_ms"]["p95"] > 0
    assert len(load_video(out / "maze.mp4").frames) == 12
    trace = json.loads((out / "trace_maze.json").read_text())
    steps = [event for event in trace["traceEvents"] if event.get("cat") == "step"]
    assert [event["args"]["seq"] for event in steps] == list(range(12))


def test_a_log_brings_its_options_fields_and_length(tmp_path: Path) -> None:
    log = write_log(tmp_path / "walk.jsonl")
    assert run(["run", "maze", "--controls", str(log), "--out", str(tmp_path / "one")]) == 0
    stats = read_stats(tmp_path / "one" / "stats_maze.json")
    assert (stats["frames"], stats["width"], stats["fps"]) == (9, 64, 10)
    assert stats["fields"] == {"prompt": "lava", "seed": 8}
    again = ["run", "maze", "--controls", str(log), "--out", str(tmp_path / "other"), "--seconds", "0.5"]
    assert run([*again, "--fps", "20"]) == 0
    assert read_stats(tmp_path / "other" / "stats_maze.json")["frames"] == 10


def test_a_run_ends_with_the_rollout(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """``max_chunks`` of a demo of one's own ends the film before its length in seconds."""
    (tmp_path / "short.py").write_text(
        "from dataclasses import replace\n"
        "from realtime_engine.integrations.maze.demo import demo as maze\n"
        "demo = replace(maze, name='short', max_chunks=3)\n"
    )
    assert run(["run", f"{tmp_path / 'short.py'}:demo", *SMALL, "--seconds", "2", "--out", str(tmp_path)]) == 0
    assert "finished after 3 of 60 chunks" in capsys.readouterr().out
    stats = read_stats(tmp_path / "stats_short.json")
    assert (stats["chunks"], stats["frames"]) == (3, 3)
    assert len(load_video(tmp_path / "short.mp4").frames) == 3


def test_a_comparison_passes_or_fails(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    golden = tmp_path / "golden"
    common = ["run", "maze", "--width", "64", "--height", "36", "--seconds", "0.2"]
    assert run([*common, "--seed", "3", "--out", str(golden)]) == 0
    again = [*common, "--compare", str(golden / "maze.mp4"), "--out", str(tmp_path / "out"), "--overwrite"]
    assert run([*again, "--seed", "3"]) == 0
    assert "identical" in capsys.readouterr().out
    assert compare_films(golden / "maze.mp4", tmp_path / "out" / "maze.mp4").frames == 6
    assert run([*again, "--seed", "4"]) == 1
    assert "below --least-psnr 40" in " ".join(capsys.readouterr().err.split())
    assert read_stats(tmp_path / "out" / "stats_maze.json")["comparison"]["worst_psnr_db"] < 40
    assert run([*again, "--seed", "4", "--least-psnr", "1", "--least-ssim", "0.99"]) == 1
    assert "below --least-ssim 0.99" in " ".join(capsys.readouterr().err.split())
    assert run([*again, "--seed", "4", "--least-psnr", "1", "--least-ssim", "-1"]) == 0


def test_mistakes_are_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = ("--out", str(tmp_path))
    assert "--seconds must be above 0" in complaint(capsys, "run", "maze", "--seconds", "0", *out)
    assert "refuses fields: seed" in complaint(capsys, "run", "maze", "--seed", "-1", *out)
    assert "cannot read /nowhere" in complaint(capsys, "run", "maze", "--controls", "/nowhere", *out)
    assert "cannot read /nowhere" in complaint(capsys, "run", "maze", "--prompt", "@/nowhere", *out)
    assert "there is no file /nowhere" in complaint(capsys, "run", "maze", "--compare", "/nowhere", *out)
    (tmp_path / "bad.jsonl").write_text("{}\n")
    assert "line 1" in complaint(capsys, "run", "maze", "--controls", str(tmp_path / "bad.jsonl"), *out)
    assert not (tmp_path / "maze.mp4").exists()
    (tmp_path / "maze.mp4").write_text("precious")
    assert "(--overwrite)" in complaint(capsys, "run", "maze", *SMALL, *out)
    assert (tmp_path / "maze.mp4").read_text() == "precious"
    assert "--sessions must be 1 or more" in complaint(capsys, "bench", "maze", "--sessions", "0", *out)


def test_a_bench_writes_table_numbers_and_curve(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["bench", "maze", *SMALL, "--seconds", "0.2", "--sessions", "2", "--out", str(tmp_path)]
    assert run(arguments) == 0
    assert "a chunk plays 33.33 ms" in capsys.readouterr().out
    stats = read_stats(tmp_path / "capacity_maze.json")
    first = stats["points"][0]
    assert first["sessions"] == 1 and first["chunks"] > 0 and first["period_ms"] == pytest.approx(100 / 3)
    with Image.open(tmp_path / "capacity_maze.png") as picture:
        assert picture.format == "PNG"


def test_the_help_of_a_demo_shows_options_and_fields(capsys: pytest.CaptureFixture[str]) -> None:
    for command in ("run", "bench"):
        assert run([command, "maze", "--help"]) == 0
        text = capsys.readouterr().out
        assert all(flag in text for flag in ("--max-sessions", "--prompt", "--seed", "--seconds"))
    assert run(["serve", "maze", "--help"]) == 0
    text = capsys.readouterr().out
    assert "--record-controls" in text and "--prompt" not in text
