"""A server of a demo in a thread of this process."""

from __future__ import annotations

import threading

from pydantic import BaseModel

from ..infra.demo import Demo
from ..server import DemoServer, ServerConfig, create_app


class ServerThread:
    """Serves a demo in a thread, from its creation until :meth:`close`.

    Args:
        demo: the demo.
        config: the settings.
        options: passed to ``demo.build``.

    Attributes:
        port: the port that it listens on.

    Raises:
        OSError: the address is not available.
        ImportError: the routes of the demo cannot be imported.
    """

    def __init__(self, demo: Demo, config: ServerConfig, options: BaseModel | None) -> None:
        app = create_app(demo, config, options=options)
        self._server = DemoServer(app, config, log_config=None, access_log=False)
        self.port: int = self._server.listener.getsockname()[1]
        self._timeout_s = 2 * config.shutdown_timeout_s
        self._thread = threading.Thread(target=self._server.run, name=f"realtime-engine-{self.port}", daemon=True)
        self._thread.start()

    @property
    def is_running(self) -> bool:
        """Whether the server runs."""
        return self._thread.is_alive()

    def close(self) -> None:
        """End all sessions and the server. Idempotent."""
        self._server.should_exit = True
        self._thread.join(self._timeout_s)
