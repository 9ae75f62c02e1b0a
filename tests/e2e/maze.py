"""The maze, served by the command line in its own process."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any
from urllib.request import urlopen

if TYPE_CHECKING:
    from ..network import End

_SOURCES = Path(__file__).parents[2] / "src"
_START_S, _END_S = 20.0, 10.0


class MazeServer:
    """``realtime-engine serve maze`` at 320x180; context manager.

    Args:
        flags: additional flags.
        demo: another demo that has these options.
        end: the end of a network where it serves every client; loopback by default.

    Attributes:
        url: the URL of the page, once it runs.
    """

    def __init__(self, *flags: str, demo: str = "maze", end: End | None = None) -> None:
        self._demo = demo
        self._end = end
        self._flags: Sequence[str] = ("--width", "320", "--height", "180", *flags)
        self._port = 0
        self.url = ""

    def __enter__(self) -> MazeServer:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()

    def start(self) -> None:
        """Start it; after :meth:`stop`, at the same address."""
        command = [sys.executable, "-m", "realtime_engine", "serve", self._demo, "--port", str(self._port)]
        command += self._flags
        if self._end is not None:
            command = self._end.command(*command, "--host", self._end.address, "--open")
        environment = {**os.environ, "PYTHONPATH": str(_SOURCES), "NO_COLOR": "1"}
        self._process = subprocess.Popen(
            command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        self._output: list[str] = []
        self._announced = threading.Event()
        self._reading = threading.Thread(target=self._read, daemon=True)
        self._reading.start()
        if not self._announced.wait(_START_S) or not self.url:
            self.stop()
            raise RuntimeError("the server did not start:\n" + "".join(self._output))

    def stop(self) -> None:
        """Terminate it, or kill it if it does not end."""
        self._process.terminate()
        try:
            self._process.wait(_END_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            raise RuntimeError(f"the server did not stop within {_END_S:g} s:\n" + "".join(self._output)) from None
        finally:
            self._reading.join(_END_S)
            assert self._process.stdout is not None
            self._process.stdout.close()

    @property
    def log(self) -> str:
        """Its output so far."""
        return "".join(self._output)

    def sessions(self) -> list[dict[str, Any]]:
        """All sessions, as the server describes them."""
        with urlopen(self.url + "api/sessions", timeout=60) as answer:
            return list(json.load(answer)["sessions"])

    def viewers(self) -> list[int]:
        """The number of viewers of each session."""
        return [session["viewers"] for session in self.sessions()]

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._output.append(line)
            found = re.search(r"http://[\d.]+:(\d+)/", line)
            if found:
                self._port = int(found[1])
                self.url = found[0]
                self._announced.set()
        self._announced.set()
