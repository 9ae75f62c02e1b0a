"""Every command ends on SIGINT and SIGTERM, also when it is started with SIGINT ignored."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from .cli.support import Command
from .extras import skip_without

SIGNALS = pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)], ids=["SIGINT", "SIGTERM"]
)
ENDLESS = ("--seconds", "1000", "--out", "out", "--width", "64", "--height", "36")
DEMO = """
from dataclasses import replace

from realtime_engine.integrations.registry import load_demo


def build(options):
    engine = maze.build(options)
    step = engine.step

    def announced(due):
        print("stepping", flush=True)
        return step(due)

    engine.step = announced
    return engine


maze = load_demo("maze")
demo = replace(maze, build=build)
"""


def files(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


@SIGNALS
@pytest.mark.parametrize("command", ["run", "bench"])
def test_a_command_is_stopped_and_leaves_no_file(command: str, number: int, code: int, tmp_path: Path) -> None:
    (tmp_path / "loud.py").write_text(DEMO)
    with Command(command, "loud.py:demo", *ENDLESS, cwd=tmp_path, ignores_sigint=True) as running:
        running.wait_for_output("stepping")
        running.signal(number)
        assert running.wait() == code, running.output
        assert "Traceback" not in running.output
    assert files(tmp_path / "out") == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_server_ends(number: int) -> None:
    with Command("serve", "maze", "--port", "0", ignores_sigint=True) as running:
        running.get("healthz")
        running.signal(number)
        assert running.wait() == 0
        assert "Traceback" not in running.output


@SIGNALS
def test_a_training_stops(number: int, code: int, tmp_path: Path) -> None:
    skip_without("torch")
    out = tmp_path / "dream"
    module = "realtime_engine.integrations.dream.train"
    with Command("--out", str(out), module=module, ignores_sigint=True) as running:
        running.wait_until(out.exists)
        running.signal(number)
        assert running.wait() == code, running.output
        assert "starts over" in " ".join(running.output.split())
    assert files(out) == []
