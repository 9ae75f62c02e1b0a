"""``serve --reload`` as a process: its child is replaced when a file changes, and ends with it."""

from __future__ import annotations

import json
import signal
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from realtime_engine.cli.reload import syntax_error, wants_reload, with_fixed_port, without_reload

from .support import TIMEOUT_S, Command

DEMO = """
import os
import threading

import names
from realtime_engine.demo import Controls, Demo

print("child", os.getpid(), flush=True)
demo = Demo("quick", names.TITLE, lambda options: threading.Event().wait(), Controls(), lambda window: {})
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "mine.py").write_text(DEMO)
    (tmp_path / "names.py").write_text("TITLE = 'First'\n")
    return tmp_path


def serve(folder: Path) -> Command:
    return Command("serve", str(folder / "mine.py") + ":demo", "--reload", "--port", "0")


def title(running: Command) -> str | None:
    """The title that is served now; ``None`` while no server listens."""
    try:
        with urllib.request.urlopen(f"{running.url()}/api/demo", timeout=TIMEOUT_S) as answer:
            return str(json.load(answer)["title"])
    except (urllib.error.URLError, ConnectionError):
        return None


def until_titled(running: Command, expected: str) -> None:
    running.wait_until(lambda: title(running) == expected)


def child_of(running: Command) -> int:
    return int(running.wait_for_output(r"child (\d+)").group(1))


def is_alive(pid: int) -> bool:
    """Whether a process runs; one that has ended and was not collected does not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


def test_a_change_of_an_imported_file_restarts_it_at_the_same_address(folder: Path) -> None:
    with serve(folder) as running:
        until_titled(running, "First")
        first = child_of(running)
        (folder / "names.py").write_text("TITLE = 'The second'\n")
        until_titled(running, "The second")
        assert not is_alive(first)
        assert "names.py changed: restarting" in running.output
        assert running.interrupt() == 0
        assert "Traceback" not in running.output and "Fatal" not in running.output


def test_the_running_demo_stays_while_a_file_has_a_syntax_error(folder: Path) -> None:
    with serve(folder) as running:
        until_titled(running, "First")
        (folder / "names.py").write_text("TITLE = (\n")
        running.wait_for_output(r"names\.py, line 1: .*; the running demo stays")
        assert title(running) == "First"
        (folder / "names.py").write_text("TITLE = 'Repaired'\n")
        until_titled(running, "Repaired")


def test_a_file_that_raises_waits_for_the_next_change(folder: Path) -> None:
    (folder / "names.py").write_text("TITEL = 'First'\n")
    with serve(folder) as running:
        running.wait_for_output("has no attribute 'TITLE'")
        running.wait_for_output("waiting for a change")
        (folder / "names.py").write_text("TITLE = 'Repaired'\n")
        until_titled(running, "Repaired")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_both(folder: Path, number: signal.Signals) -> None:
    with serve(folder) as running:
        until_titled(running, "First")
        running.signal(number)
        assert running.wait() == 0
        assert not is_alive(child_of(running))


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="needs /proc")
def test_the_child_ends_with_a_parent_that_is_killed(folder: Path) -> None:
    with serve(folder) as running:
        until_titled(running, "First")
        running.signal(signal.SIGKILL)
        running.wait_until(lambda: not is_alive(child_of(running)))


def test_a_named_demo_cannot_be_watched() -> None:
    with Command("serve", "maze", "--reload") as running:
        assert running.wait() == 2
        assert "--reload needs a demo in a file, path/to/file.py:demo, got maze" in running.output


def test_a_missing_file_is_an_error(tmp_path: Path) -> None:
    with Command("serve", str(tmp_path / "none.py") + ":demo", "--reload") as running:
        assert running.wait() == 2
        assert "there is no file" in running.output


@pytest.mark.parametrize(
    ("arguments", "environment", "expected"),
    [
        (["serve", "a.py:demo", "--reload"], {}, True),
        (["serve", "a.py:demo"], {}, False),
        (["serve", "a.py:demo"], {"REALTIME_ENGINE_RELOAD": "true"}, True),
        (["serve", "a.py:demo", "--no-reload"], {"REALTIME_ENGINE_RELOAD": "true"}, False),
    ],
)
def test_the_flag_counts_before_the_environment(
    arguments: list[str], environment: dict[str, str], expected: bool
) -> None:
    assert wants_reload(arguments, environment) is expected
    assert without_reload(arguments) == ["serve", "a.py:demo"]


@pytest.mark.parametrize(
    ("arguments", "environment"),
    [(["--port", "0"], {}), (["--port=0"], {}), ([], {"REALTIME_ENGINE_PORT": "0"})],
)
def test_a_free_port_is_chosen_once(arguments: list[str], environment: dict[str, str]) -> None:
    flag, port = with_fixed_port(arguments, environment)[-2:]
    assert flag == "--port" and int(port) > 0


def test_a_given_port_stays() -> None:
    assert with_fixed_port(["--port", "9000"], {"REALTIME_ENGINE_PORT": "0"}) == ["--port", "9000"]
    assert with_fixed_port([], {}) == []


def test_a_syntax_error_is_named_with_its_place(tmp_path: Path) -> None:
    (tmp_path / "bad.py").write_text("x = 1\ny = = 2\n")
    (tmp_path / "good.py").write_text("x = 1\n")
    assert (syntax_error(tmp_path / "bad.py") or "").startswith("bad.py, line 2: ")
    assert syntax_error(tmp_path / "good.py") is None
