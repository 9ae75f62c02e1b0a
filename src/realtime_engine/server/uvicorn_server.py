"""The web server under the application: sockets that hold little, and an end that comes."""

from __future__ import annotations

import contextlib
import logging
import math
import re
import socket
from typing import Any

import uvicorn
from fastapi import FastAPI

from ..infra.mjpeg import listening_socket
from .config import ServerConfig

try:
    import resource
except ImportError:  # Windows has no such limit
    resource = None  # type: ignore[assignment]

_SECRET = re.compile(r"\btoken=[^&\s\"]+")
_LARGEST_CONTROL_FRAME = 1024 * 1024
_PING_S = 5.0


class DemoServer(uvicorn.Server):
    """uvicorn, listening where the configuration says.

    Before it waits for open responses to end, it tells the application's endless ones to do so.

    Args:
        app: from :func:`~realtime_engine.server.app.create_app`.
        settings: more settings of ``uvicorn.Config``, such as ``log_level``.

    Raises:
        OSError: the address cannot be had.
    """

    def __init__(self, app: FastAPI, config: ServerConfig, **settings: Any) -> None:
        allow_many_connections()
        self.listener = listening_socket(config.host, config.port)
        super().__init__(
            uvicorn.Config(
                app,
                **{
                    "lifespan": "on",
                    "loop": "asyncio",  # uvloop saves nothing here, and its timers come later
                    "ws": "websockets-sansio",
                    "ws_max_size": _LARGEST_CONTROL_FRAME,
                    "ws_ping_interval": _PING_S,
                    "ws_ping_timeout": _PING_S,
                    "ws_per_message_deflate": False,  # encoded video does not get smaller
                    "timeout_graceful_shutdown": math.ceil(config.shutdown_timeout_s),
                    "server_header": False,
                    **settings,
                },
            )
        )
        self._runtime = app.state.runtime
        for name in ("uvicorn.access", "uvicorn.error"):
            logging.getLogger(name).addFilter(hide_tokens)
        logging.getLogger("uvicorn.error").addFilter(hide_refused_handshakes)

    @property
    def url(self) -> str:
        """Where a browser on this machine finds it."""
        host, port = self.listener.getsockname()[:2]
        if host in ("0.0.0.0", "::"):
            host = "127.0.0.1" if host == "0.0.0.0" else "::1"
        return f"http://[{host}]:{port}/" if ":" in host else f"http://{host}:{port}/"

    def run(self, sockets: list[socket.socket] | None = None) -> None:
        """Serve on an event loop of its own; returns after Ctrl-C."""
        with contextlib.suppress(KeyboardInterrupt):
            super().run(sockets)

    async def serve(self, sockets: list[socket.socket] | None = None) -> None:
        """Serve until a signal comes or ``should_exit`` is set."""
        await super().serve(sockets or [self.listener])

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._runtime.end_streams()
        await super().shutdown(sockets)


def allow_many_connections() -> None:
    """Let the process open as many files as the system allows it: each connection is one."""
    if resource is not None:
        _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
        with contextlib.suppress(OSError, ValueError):  # some systems allow less than they say
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def hide_tokens(record: logging.LogRecord) -> bool:
    """A filter that keeps the tokens of addresses out of the log."""
    if isinstance(record.args, tuple):
        record.args = tuple(
            _SECRET.sub("token=...", value) if isinstance(value, str) else value for value in record.args
        )
    return True


def hide_refused_handshakes(record: logging.LogRecord) -> bool:
    """uvicorn takes a WebSocket that was answered by a problem for one that was not answered at all."""
    return not (isinstance(record.msg, str) and record.msg.startswith("ASGI callable returned without completing"))
