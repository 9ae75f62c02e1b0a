"""What the commands print, and how they answer mistakes: one line, exit code 2, no traceback."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from realtime_engine.cli.app import run
from realtime_engine.integrations.registry import load_demo

from .support import ENVIRONMENT, TIMEOUT_S

BROKEN = "import no_such_module_anywhere\n"
FAILING = """
from realtime_engine.infra.controls import Controls
from realtime_engine.infra.demo import Demo

def build(options):
    raise OSError("no weights at all")

demo = Demo("failing", "Failing", build, Controls(), lambda window: {})
"""


def error_line(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """The one line that a mistake is answered with."""
    assert run(arguments) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    (line,) = printed.err.splitlines()
    assert line.startswith("Error: ")
    return line


def test_help_names_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--help"]) == 0
    text = capsys.readouterr().out
    assert all(command in text for command in ("serve", "list", "info"))
    assert run([]) == 0
    assert capsys.readouterr().out == text


def test_the_help_of_a_demo_shows_its_own_options(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["serve", "--help"]) == 0
    assert "--frames-per-chunk" not in capsys.readouterr().out
    assert run(["serve", "maze", "--help"]) == 0
    text = capsys.readouterr().out
    assert all(flag in text for flag in ("--frames-per-chunk", "--max-sessions", "--port", "--idle-timeout"))


def test_a_mistake_in_one_of_several_demos_is_named(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "broken.py").write_text(BROKEN)
    assert "broken.py, line 1" in error_line(capsys, "serve", "maze", f"{tmp_path / 'broken.py'}:demo")
    assert "'mirrror'; did you mean 'mirror'?" in error_line(capsys, "serve", "maze", "--port", "0", "mirrror")


def test_several_demos_have_no_flags_for_their_options(capsys: pytest.CaptureFixture[str]) -> None:
    line = error_line(capsys, "serve", "maze", "--max-sessions", "2", "mirror")
    assert "--max-sessions" in line and "several demos" in line


def test_the_version_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--version"]) == 0
    name, version = capsys.readouterr().out.split()
    assert name == "realtime-engine" and version[0].isdigit()


def test_list_shows_the_maze(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["list"]) == 0
    text = capsys.readouterr().out
    assert "maze" in text and "built in" in text and load_demo("maze").title in text


def test_list_shows_a_broken_demo_with_its_reason(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("realtime_engine.integrations.registry.BUILT_IN", {"ruin": "no_such_module_anywhere:demo"})
    assert run(["list"]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "ruin" in text and "no_such_module_anywhere" in text


def test_info_prints_tables(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["info", "maze"]) == 0
    text = capsys.readouterr().out
    assert all(part in text for part in ("Manifest", "rate_hz", "KeyW, ArrowUp", "prompt", "frames_per_chunk"))


def test_info_prints_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["info", "maze", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    demo = load_demo("maze")
    assert (told["name"], told["title"]) == (demo.name, demo.title)
    assert told["manifest"]["chunk_shape"] == [1, 360, 640, 3]
    controls = demo.controls.describe()
    del told["controls"]["defaults"]["seed"], controls["defaults"]["seed"]  # another one each time
    assert told["controls"] == controls
    assert "frames_per_chunk" in told["options"]["properties"]


def test_info_need_not_build_the_model(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "failing.py").write_text(FAILING)
    spec = f"{tmp_path / 'failing.py'}:demo"
    assert "no weights at all" in error_line(capsys, "info", spec)
    assert run(["info", spec, "--no-build", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["manifest"] is None


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["serve"], "DEMO"),
        (["serve", "amaze"], "did you mean 'maze'"),
        (["info", "amaze"], "did you mean 'maze'"),
        (["serve", "nowhere.py:demo"], "no file 'nowhere.py'"),
        (["serve", "maze", "--prot", "1"], "--prot"),
        (["serve", "maze", "--port", "many"], "--port"),
        (["serve", "maze", "--port", "65536"], "port must be an integer from 0 to 65535, got 65536"),
        (["serve", "maze", "--host", "0.0.0.0"], "set a token (--token) that clients must send, or set open (--open)"),
        (["serve", "maze", "--ice-server", "http://example.org"], "http://example.org"),
        (["serve", "maze", "--ice-server", "turn:example.org,me"], "URL,USER,PASSWORD"),
        (
            ["serve", "maze", "--frames-per-chunk", "0"],
            "--frames-per-chunk: Input should be greater than or equal to 1",
        ),
        (["serve", "maze", "--log-level", "loud"], "--log-level must be one of"),
        (["dance"], "(see: realtime-engine --help)"),
        (["serve", "maze", "--prot", "1"], "(see: realtime-engine serve --help)"),
        (["serve"], "(see: realtime-engine serve --help)"),
        (["info"], "(see: realtime-engine info --help)"),
    ],
)
def test_a_mistake_is_one_line(capsys: pytest.CaptureFixture[str], arguments: list[str], said: str) -> None:
    assert said in error_line(capsys, *arguments)


def test_a_file_that_cannot_be_loaded_names_the_line(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "broken.py").write_text(BROKEN)
    line = error_line(capsys, "serve", f"{tmp_path / 'broken.py'}:demo")
    assert "line 1" in line and "no_such_module_anywhere" in line


def test_an_address_in_use_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        line = error_line(capsys, "serve", "maze", "--port", str(port))
    assert f"127.0.0.1:{port}" in line and "in use" in line
    assert line.endswith("choose another port with --port")


def test_an_error_in_an_argument_is_no_markup(capsys: pytest.CaptureFixture[str]) -> None:
    assert "[bold]x[/]" in error_line(capsys, "serve", "[bold]x[/]")


def test_without_the_extra_it_says_what_to_install() -> None:
    script = "import sys; sys.modules['typer'] = None; from realtime_engine.cli import main; main()"
    ended = subprocess.run(
        [sys.executable, "-c", script], env=ENVIRONMENT, capture_output=True, text=True, timeout=TIMEOUT_S
    )
    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr == "realtime-engine needs typer: pip install 'realtime-engine[serve]'\n"
