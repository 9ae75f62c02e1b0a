"""``serve``: runs the server of one or several demos until a signal ends it."""

from __future__ import annotations

import errno
import logging
import os
import signal
import socket
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import FrameType
from urllib.parse import quote

from fastapi import FastAPI
from pydantic import BaseModel
from rich.markup import escape

from ..infra.demo import Demo
from ..server import DemoServer, ServerConfig, create_app, create_gallery_app
from ..server.engine_host import is_loading
from ..server.gallery import Gallery
from .console import CommandError, out
from .reload import end_with_parent
from .share import share_notes

_log = logging.getLogger(__name__)

_FAILED = 1
_SLACK_S = 3.0
_MISTAKES = (ImportError, AttributeError, TypeError, FileNotFoundError)
_TRANSPORTS = "WebRTC; WebCodecs where UDP is blocked; MJPEG everywhere"


@dataclass(frozen=True)
class ServeConfig(ServerConfig):
    """Settings of the command ``serve``.

    Attributes:
        share: print how to publish the server by a tunnel (cloudflared, ssh), and check the settings for it.
        reload: watch the file of the demo and what it imports from its folder; restart the server after a change.
    """

    share: bool = False
    reload: bool = False


def serve_demo(demo: Demo, config: ServerConfig, options: BaseModel | None, *, share: bool = False) -> int:
    """Serve a demo until a signal ends it, and return the exit code.

    The first SIGINT or SIGTERM starts a graceful shutdown, limited by ``config.shutdown_timeout_s``. The second one
    ends the process immediately with exit code 128 + signal.

    Raises:
        CommandError: the address cannot be bound, or the routes of the demo cannot be imported.
    """
    try:
        app = create_app(demo, config, options=options)
    except _MISTAKES as error:
        raise CommandError(f"demo {demo.name!r} cannot be served: {error}") from error
    return _serve(app, config, lambda url: announce(demo, config, url), share=share)


def serve_gallery(demos: Sequence[Demo], config: ServerConfig, *, share: bool = False) -> int:
    """As :func:`serve_demo` for several demos, with a gallery.

    Raises:
        CommandError: as :func:`serve_demo`.
    """
    try:
        app = create_gallery_app(demos, config)
    except _MISTAKES as error:
        raise CommandError(f"the demos cannot be served: {error}") from error
    return _serve(app, config, lambda url: announce_gallery(app.state.gallery, config, url), share=share)


def _serve(app: FastAPI, config: ServerConfig, announced: Callable[[str], None], *, share: bool) -> int:
    try:
        server = _Server(app, config, announced, share=share)
    except OSError as error:
        hint = " with --port" if error.errno == errno.EADDRINUSE else ""
        raise CommandError(f"{error.strerror or error}{hint}") from error
    for number in (signal.SIGINT, signal.SIGTERM):  # replaced by uvicorn's handlers while it runs
        signal.signal(number, _end_now)
    end_with_parent()
    server.run()
    code = 0 if server.started else _FAILED
    if is_loading():
        # At the end of the interpreter, Python unwinds the thread that loads the model; within C++ code, that aborts.
        logging.shutdown()
        out.file.flush()
        os._exit(code)
    return code


class _Server(DemoServer):
    """Calls a function with the URL of the page after start-up, and limits the time of a shutdown."""

    def __init__(self, app: FastAPI, config: ServerConfig, announced: Callable[[str], None], *, share: bool) -> None:
        super().__init__(app, config, log_config=None, access_log=False)
        self._announced = announced
        self._options = config
        self._share = share

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            self._announced(self.url)
            if self._share:
                announce_tunnels(self._options, self.url)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Replace uvicorn's handler, which re-raises the signal and waits for the engine after a second signal."""
        if self.should_exit:
            _end_now(sig, frame)
        self.should_exit = True
        _log.info("shutting down; press Ctrl-C again to exit immediately")
        watchdog = threading.Timer(2 * self._options.shutdown_timeout_s + _SLACK_S, _end_now, (sig, None))
        watchdog.daemon = True  # also covers threads that the interpreter joins at exit
        watchdog.start()


def announce(demo: Demo, config: ServerConfig, url: str) -> None:
    """Print the URL of the page and who can reach it."""
    out.print(f"[bold]{escape(demo.title)}[/]")
    _line("open", f"[bold cyan]{escape(url + _query(config))}[/]")
    _line("video", _TRANSPORTS)
    _line("for", _audience(config))
    _line("model", "loading; the page is already available")
    _line("quit", "Ctrl-C")


def announce_gallery(gallery: Gallery, config: ServerConfig, url: str) -> None:
    """Print the URL of the gallery, the path of each demo, and who can reach them."""
    out.print(f"[bold]{len(gallery.demos)} demos[/]")
    _line("open", f"[bold cyan]{escape(url + _query(config))}[/]")
    for name, demo in gallery.demos.items():
        _line("demo", f"/demos/{name}/  {escape(demo.demo.title)}")
    _line("video", _TRANSPORTS)
    _line("for", _audience(config))
    _line("models", "loaded when they are first used")
    _line("quit", "Ctrl-C")


def _query(config: ServerConfig) -> str:
    return f"?token={quote(config.token, safe='')}" if config.token else ""


def announce_tunnels(config: ServerConfig, url: str) -> None:
    """Print how the server can be published."""
    for note in share_notes(config, url):
        _line("share", f"[yellow]{escape(note.text)}[/]" if note.is_warning else escape(note.text))


def _audience(config: ServerConfig) -> str:
    if config.token is not None:
        return "clients with the token"
    return "this machine only" if config.is_loopback else "[yellow]every client that can reach this machine[/]"


def _line(name: str, text: str) -> None:
    out.print(f"  {name:7}{text}", soft_wrap=True)


def _end_now(sig: int, frame: FrameType | None) -> None:
    os._exit(128 + sig)
