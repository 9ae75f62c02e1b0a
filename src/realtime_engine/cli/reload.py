"""``serve --reload``: runs the server in a child process, and starts it again when the file of the demo changes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import FrameType
from typing import Any

from rich.markup import escape

from ..infra.extras import require
from ..infra.mjpeg import listening_socket
from .console import CommandError, err
from .local_imports import local_imports

SUPERVISED = "REALTIME_ENGINE_SUPERVISED"
"""Set for a child process, whose standard input is open as long as its parent lives."""

_POLL_MS = 500
_END_S = 20.0
_SIGNALS = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))

Stamp = tuple[int, int]  # time of modification in nanoseconds, size


def serve_reloading(arguments: Sequence[str], specs: Sequence[str]) -> int:
    """Run ``serve`` with ``arguments`` in a child process until a signal ends it, and return the exit code.

    Args:
        arguments: those of the command line, without ``--reload``.
        specs: the demos among them.

    Raises:
        CommandError: no demo is a file, or a file does not exist.
    """
    files = [Path(spec.rpartition(":")[0]) for spec in specs if spec.rpartition(":")[0].endswith(".py")]
    if not files:
        given = specs[0] if specs else "no demo"
        raise CommandError(f"--reload needs a demo in a file, path/to/file.py:demo, got {given}")
    for path in files:
        if not path.is_file():
            raise CommandError(f"there is no file {str(path)!r}")
    watchfiles = require("watchfiles", "serve", "reload a demo")
    command = [sys.executable, "-m", "realtime_engine", *with_fixed_port(arguments, os.environ)]
    supervisor = Supervisor(command, files)
    former = {number: signal.signal(number, supervisor.on_signal) for number in _SIGNALS}
    try:
        return supervisor.run(_wakeups(watchfiles, supervisor))
    finally:
        for number, handler in former.items():
            signal.signal(number, handler)


def _wakeups(watchfiles: Any, supervisor: Supervisor) -> Iterator[None]:
    """Yield after each change in the folders of the watched files, and at intervals."""
    while not supervisor.stop.is_set():
        folders = supervisor.folders
        changes = watchfiles.watch(
            *folders,
            recursive=False,
            stop_event=supervisor.stop,
            rust_timeout=_POLL_MS,
            yield_on_timeout=True,
            raise_interrupt=False,
        )
        for _ in changes:
            yield
            if supervisor.folders != folders:
                break


class Supervisor:
    """One child process at a time, replaced when a watched file changes.

    A file with a syntax error does not replace the running child. After a child that has ended by itself, such as one
    whose file raises, the next change starts another one.

    Args:
        command: the command line of the child.
        files: the files of the demos; what they import locally is watched too.

    Attributes:
        stop: set by the first signal.
    """

    def __init__(self, command: Sequence[str], files: Sequence[Path]) -> None:
        self._command = command
        self._files = files
        self._child: subprocess.Popen[bytes] | None = None
        self._signals = 0
        self._has_reported_end = False
        self._watched: dict[Path, Stamp | None] = {}
        self.stop = threading.Event()

    @property
    def folders(self) -> set[Path]:
        """The folders of the watched files."""
        return {path.parent for path in self._watched if path.parent.is_dir()}

    def on_signal(self, number: int, frame: FrameType | None) -> None:
        """Pass a signal on: the first one ends the child gracefully, the second one immediately."""
        self._signals += 1
        self.stop.set()
        if self._signals > 1 and self._child is not None:
            self._child.send_signal(signal.SIGTERM)

    def run(self, wakeups: Iterator[None]) -> int:
        """Run children until a signal arrives; returns the exit code."""
        _say(f"watching {', '.join(path.name for path in sorted(self._refresh()))}")
        self._child = self._start()
        try:
            for _ in wakeups:
                self._check()
        finally:
            code = self._end()
        return code

    def _check(self) -> None:
        """Replace the child if a file has changed."""
        changed = self._refresh()
        if changed:
            errors = [text for text in map(syntax_error, sorted(changed)) if text]
            if errors:
                for text in errors:
                    _say(f"{text}; the running demo stays" if self._is_running else text)
                return
            _say(f"{', '.join(path.name for path in sorted(changed))} changed: restarting")
            self._end()
            if not self.stop.is_set():
                self._child = self._start()
        elif not self._is_running and not self._has_reported_end:
            self._has_reported_end = True
            _say("the demo has ended; waiting for a change")

    @property
    def _is_running(self) -> bool:
        return self._child is not None and self._child.poll() is None

    def _refresh(self) -> set[Path]:
        """Update the watched files; returns those that differ from before."""
        found = set().union(*map(local_imports, self._files))
        stamps = {path: _stamp(path) for path in found | set(self._watched)}
        changed = {path for path, stamp in stamps.items() if stamp is not None and stamp != self._watched.get(path)}
        self._watched = stamps
        return changed

    def _start(self) -> subprocess.Popen[bytes]:
        self._has_reported_end = False
        environment = {**os.environ, SUPERVISED: "1"}
        environment.pop("REALTIME_ENGINE_RELOAD", None)
        # In a session of its own, the child gets the Ctrl-C of the terminal from this process only.
        return subprocess.Popen(self._command, env=environment, stdin=subprocess.PIPE, start_new_session=True)

    def _end(self) -> int:
        """End the child; returns its exit code."""
        child = self._child
        if child is None:
            return 0
        if child.poll() is None:
            child.send_signal(signal.SIGTERM)
        try:
            return child.wait(_END_S)
        except subprocess.TimeoutExpired:
            child.kill()
            return child.wait()


def end_with_parent() -> None:
    """In a child of a supervisor: end when the supervisor is gone, which closes the standard input."""
    if os.environ.get(SUPERVISED) is None:
        return

    def wait() -> None:
        os.read(sys.stdin.fileno(), 1)  # a read of `sys.stdin` would hold its lock, which the interpreter takes at exit
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=wait, name="realtime-engine-supervised", daemon=True).start()


def wants_reload(arguments: Sequence[str], environment: Mapping[str, str]) -> bool:
    """Whether a command line, or else the environment, asks for ``--reload``."""
    given = [argument for argument in arguments if argument in ("--reload", "--no-reload")]
    if given:
        return given[-1] == "--reload"
    return environment.get("REALTIME_ENGINE_RELOAD", "").lower() in ("1", "true", "t", "yes", "y", "on")


def without_reload(arguments: Sequence[str]) -> list[str]:
    """The arguments of the child process."""
    return [argument for argument in arguments if argument not in ("--reload", "--no-reload")]


def with_fixed_port(arguments: Sequence[str], environment: Mapping[str, str]) -> list[str]:
    """The arguments with a free port in place of port 0, so that each child listens at the same address."""
    arguments = list(arguments)
    port = environment.get("REALTIME_ENGINE_PORT")
    for at, argument in enumerate(arguments):
        if argument == "--port" and at + 1 < len(arguments):
            port = arguments[at + 1]
        elif argument.startswith("--port="):
            port = argument.partition("=")[2]
    if port != "0":
        return arguments
    with listening_socket("127.0.0.1", 0) as free:
        return [*arguments, "--port", str(free.getsockname()[1])]


def syntax_error(path: Path) -> str | None:
    """The syntax error of a file with its place; ``None`` without one."""
    try:
        compile(path.read_bytes(), str(path), "exec", dont_inherit=True)
    except (SyntaxError, ValueError) as error:
        line = getattr(error, "lineno", None)
        return f"{path.name}{'' if line is None else f', line {line}'}: {getattr(error, 'msg', error)}"
    return None


def _stamp(path: Path) -> Stamp | None:
    try:
        status = path.stat()
    except OSError:  # between the two steps in which an editor replaces it
        return None
    return status.st_mtime_ns, status.st_size


def _say(text: str) -> None:
    err.print(f"[bold]reload:[/] {escape(text)}", soft_wrap=True)
