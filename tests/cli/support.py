"""The command line as a process of its own."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

SRC = Path(__file__).parents[2] / "src"
TIMEOUT_S = 100.0
_Found = TypeVar("_Found")
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(SRC), "PYTHONUNBUFFERED": "1", "COLUMNS": "200"}


class Command:
    """``realtime-engine ARGUMENTS`` (or another module) while it runs; killed at the end if it still does.

    ``ignores_sigint`` starts it as a non-interactive shell starts what it runs in the background.
    """

    def __init__(
        self,
        *arguments: str,
        module: str = "realtime_engine",
        ignores_sigint: bool = False,
        cwd: Path | None = None,
        **environment: str,
    ) -> None:
        command = [sys.executable, "-m", module, *arguments]
        if ignores_sigint:
            command = ["sh", "-c", "trap '' INT; exec \"$@\"", "sh", *command]
        self._process = subprocess.Popen(
            command,
            cwd=cwd,
            env={**ENVIRONMENT, **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self._lines: list[str] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def __enter__(self) -> Command:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait(TIMEOUT_S)
        self._reader.join(TIMEOUT_S)
        assert self._process.stdout is not None
        self._process.stdout.close()

    @property
    def output(self) -> str:
        return "".join(self._lines)

    def url(self) -> str:
        """The address that it prints, when it does."""
        return self.wait_for_output(r"(http://[\d.]+:\d+)/").group(1)

    def wait_for_output(self, pattern: str) -> re.Match[str]:
        return self.wait_until(lambda: re.search(pattern, self.output))

    def wait_until(self, condition: Callable[[], _Found | None]) -> _Found:
        deadline = time.monotonic() + TIMEOUT_S
        while not (found := condition()):
            running = self._process.poll() is None or self._reader.is_alive()
            assert running and time.monotonic() < deadline, f"never came, but:\n{self.output}"
            time.sleep(0.01)
        return found

    def get(self, path: str) -> Any:
        """The JSON at an address of the server, as soon as it answers without an error and the model is ready."""
        deadline = time.monotonic() + TIMEOUT_S
        url = self.url()
        while not self._is_ready(url):
            assert time.monotonic() < deadline, f"never ready:\n{self.output}"
            time.sleep(0.01)
        with urllib.request.urlopen(f"{url}/{path}", timeout=TIMEOUT_S) as answer:
            return json.load(answer)

    def _is_ready(self, url: str) -> bool:
        try:
            with urllib.request.urlopen(f"{url}/readyz", timeout=TIMEOUT_S):
                return True
        except urllib.error.HTTPError as error:
            error.close()
            return False

    def interrupt(self) -> int:
        """Ctrl-C, and the exit code that follows."""
        self.signal(signal.SIGINT)
        return self.wait()

    def signal(self, number: int) -> None:
        self._process.send_signal(number)

    def wait(self) -> int:
        code = self._process.wait(TIMEOUT_S)
        self._reader.join(TIMEOUT_S)
        return code

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._lines.append(line)
