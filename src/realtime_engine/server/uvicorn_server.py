"""uvicorn with small socket buffers and a bounded shutdown."""

from __future__ import annotations

import contextlib
import logging
import math
import re
import socket
from collections.abc import Callable
from typing import Any

import uvicorn
from fastapi import FastAPI

from ..infra.mjpeg import listening_socket
from .config import ServerConfig
from .prefix import TrustedProxies

try:
    import resource
except ImportError:  # not on Windows
    resource = None  # type: ignore[assignment]

_SECRET = re.compile(r"(?P<name>\b(?:token|watch|join)=|/api/tickets/)[^&/?\s\"]+")
_MAX_MESSAGE_BYTES = 1024 * 1024
_PING_INTERVAL_S = 5.0


class DemoServer(uvicorn.Server):
    """A uvicorn server that listens as configured.

    On shutdown it ends the application's endless responses before it waits for open ones.

    Args:
        app: from :func:`~.app.create_app` or :func:`~.gallery.create_gallery_app`.
        config: names the address and the shutdown timeout.
        settings: additional settings of ``uvicorn.Config``, such as ``log_level``.

    Attributes:
        listener: the listening socket.

    Raises:
        OSError: the address is not available.
    """

    def __init__(self, app: FastAPI, config: ServerConfig, **settings: Any) -> None:
        allow_many_connections()
        self.listener = listening_socket(config.host, config.port)
        super().__init__(
            uvicorn.Config(
                TrustedProxies(app),
                **{
                    "proxy_headers": False,  # TrustedProxies reads them
                    "lifespan": "on",
                    "loop": "asyncio",  # uvloop saves nothing here, and its timers are less precise
                    "ws": "websockets-sansio",
                    "ws_max_size": _MAX_MESSAGE_BYTES,
                    "ws_ping_interval": _PING_INTERVAL_S,
                    "ws_ping_timeout": _PING_INTERVAL_S,
                    "ws_per_message_deflate": False,  # encoded video does not compress
                    "timeout_graceful_shutdown": math.ceil(config.shutdown_timeout_s),
                    "server_header": False,
                    **settings,
                },
            )
        )
        self._end_streams: Callable[[], None] = app.state.end_streams
        for name in ("uvicorn.access", "uvicorn.error"):
            logging.getLogger(name).addFilter(hide_tokens)
        logging.getLogger("uvicorn.error").addFilter(hide_refused_handshakes)

    @property
    def url(self) -> str:
        """The address for a browser on this machine."""
        host, port = self.listener.getsockname()[:2]
        if host in ("0.0.0.0", "::"):
            host = "127.0.0.1" if host == "0.0.0.0" else "::1"
        return f"http://[{host}]:{port}/" if ":" in host else f"http://{host}:{port}/"

    def run(self, sockets: list[socket.socket] | None = None) -> None:
        """Serve on a new event loop; returns after Ctrl-C."""
        with contextlib.suppress(KeyboardInterrupt):
            super().run(sockets)

    async def serve(self, sockets: list[socket.socket] | None = None) -> None:
        """Serve until a signal arrives or ``should_exit`` is set."""
        await super().serve(sockets or [self.listener])

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End all streams, then wait for open responses."""
        self._end_streams()
        await super().shutdown(sockets)


def allow_many_connections() -> None:
    """Raise the limit of open files to the hard limit: each connection is one."""
    if resource is not None:
        _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        with contextlib.suppress(OSError, ValueError):  # some systems allow less than they report
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def hide_tokens(record: logging.LogRecord) -> bool:
    """A log filter that masks the tokens in URLs."""
    if isinstance(record.args, tuple):
        record.args = tuple(
            _SECRET.sub(r"\g<name>...", value) if isinstance(value, str) else value for value in record.args
        )
    return True


def hide_refused_handshakes(record: logging.LogRecord) -> bool:
    """A log filter: uvicorn reports a WebSocket refused with a problem as one without a response."""
    return not (isinstance(record.msg, str) and record.msg.startswith("ASGI callable returned without completing"))
