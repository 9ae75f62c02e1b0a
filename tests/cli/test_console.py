"""What the command line prints into a pipe."""

from __future__ import annotations

import re
import subprocess
import sys

from .support import ENVIRONMENT, TIMEOUT_S

SENTENCE = " ".join(["word"] * 60)
SCRIPT = f"""
import logging
from rich.table import Table
from realtime_engine.cli.console import configure_logging, err, out

configure_logging("info")
logging.getLogger("a").warning("%s", {SENTENCE!r})
err.print({SENTENCE!r})
table = Table("name", "text", box=None)
table.add_row("one", {SENTENCE!r})
out.print(table)
"""


def run(**environment: str) -> subprocess.CompletedProcess[str]:
    given = {name: value for name, value in ENVIRONMENT.items() if name != "COLUMNS"} | environment
    command = [sys.executable, "-c", SCRIPT]
    return subprocess.run(command, env=given, capture_output=True, text=True, timeout=TIMEOUT_S, check=True)


def test_nothing_is_wrapped_or_padded_in_a_pipe() -> None:
    ended = run()
    logged, printed = ended.stderr.splitlines()
    assert re.fullmatch(rf"\d\d:\d\d:\d\d WARNING  {SENTENCE}", logged)
    assert printed == SENTENCE
    assert [line.split() for line in ended.stdout.splitlines()] == [["name", "text"], ["one", *SENTENCE.split()]]
    assert max(map(len, ended.stdout.splitlines())) < 400


def test_a_width_in_the_environment_is_kept() -> None:
    assert max(map(len, run(COLUMNS="60").stdout.splitlines())) <= 60
