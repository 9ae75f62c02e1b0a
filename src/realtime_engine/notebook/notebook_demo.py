"""Shows a demo below the cell of a notebook, and keeps its server."""

from __future__ import annotations

import atexit
import dataclasses
import logging
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from ..core.errors import describe
from ..infra.demo import Demo
from ..infra.extras import require
from ..integrations.registry import load_demo
from ..server import ServerConfig
from .server_thread import ServerThread

_log = logging.getLogger(__name__)

_MODULE = Path(__file__).with_name("widget.js")
_shown: dict[str, NotebookDemo] = {}


class NotebookDemo:
    """A demo that a notebook shows; :func:`show` returns it.

    Its server starts when the page of the notebook has reported its address: the server answers no other page, and the
    kernel does not know where the notebook is open.

    Args:
        demo: the demo.
        config: the settings; the address, the token and the allowed origins are replaced.
        options: passed to ``demo.build``.
        height: height of the page in CSS pixels.
    """

    def __init__(self, demo: Demo, config: ServerConfig, options: BaseModel | None, height: int) -> None:
        anywidget = require("anywidget", "notebook", "show a demo in a notebook")
        self._demo = demo
        self._config = config
        self._options = options
        self._height = height
        self._token = secrets.token_urlsafe(24)
        self._origins: tuple[str, ...] = ()
        self._server: ServerThread | None = None
        self._is_closed = False
        self.widget: Any = anywidget.AnyWidget(_esm=_MODULE.read_text(encoding="utf-8"))
        self.widget.on_msg(self._on_message)

    def __repr__(self) -> str:
        state = "closed" if self._is_closed else "not shown yet" if self._server is None else f"port {self.port}"
        return f"<NotebookDemo {self._demo.name!r}: {state}>"

    def _ipython_display_(self) -> None:
        """Display nothing: :func:`show` has displayed the widget."""

    @property
    def port(self) -> int | None:
        """Port of the server on the kernel's loopback address; ``None`` before it starts."""
        return None if self._server is None else self._server.port

    @property
    def is_running(self) -> bool:
        """Whether the server runs."""
        return self._server is not None and self._server.is_running

    def close(self) -> None:
        """End the server, and release the model. Idempotent."""
        if self._is_closed:
            return
        self._is_closed = True
        if self._server is not None:
            self._server.close()
        self.widget.send({"closed": True})
        if _shown.get(self._demo.name) is self:
            del _shown[self._demo.name]

    def _on_message(self, widget: object, content: Mapping[str, Any], buffers: object) -> None:
        """Answer a page that shows the widget: where the server is, or why there is none."""
        if self._is_closed:
            self.widget.send({"closed": True})
            return
        try:
            server = self._started(tuple(content["origins"]))
        except Exception as error:  # the front end shows it; an exception of a callback is shown nowhere
            _log.warning("demo %r cannot be served", self._demo.name, exc_info=True)
            self.widget.send({"error": describe(error)})
            return
        self.widget.send({"port": server.port, "token": self._token, "height": self._height})

    def _started(self, origins: tuple[str, ...]) -> ServerThread:
        if self._server is None:
            config = dataclasses.replace(
                self._config, host="127.0.0.1", port=0, token=self._token, token_file=None, allowed_origins=origins
            )
            self._server = ServerThread(self._demo, config, self._options)
            self._origins = origins
        elif not set(origins) <= set(self._origins):
            raise ValueError(f"the demo is shown at {', '.join(self._origins)}: run the cell again to show it here")
        return self._server


def show(
    demo: Demo | str,
    *,
    config: ServerConfig | None = None,
    options: BaseModel | None = None,
    height: int = 720,
) -> NotebookDemo:
    """Serve a demo from this kernel, and show its page below the cell.

    A demo of the same name that is shown already is closed first, so that a cell may be run again.

    Args:
        demo: the demo, or a name or file as for ``realtime-engine serve``.
        config: the settings; its address, token and allowed origins are not used.
        options: passed to ``demo.build``; by default ``demo.options()``.
        height: height of the page in CSS pixels.

    Raises:
        MissingDependencyError: the extra ``notebook`` is not installed.
        DemoLoadError: there is no demo of this name, or its file cannot be loaded.
    """
    display = require("IPython.display", "notebook", "show a demo in a notebook")
    loaded = load_demo(demo) if isinstance(demo, str) else demo
    shown = NotebookDemo(loaded, config or ServerConfig(), options, height)
    former = _shown.get(loaded.name)
    if former is not None:
        former.close()
    _shown[loaded.name] = shown
    display.display(shown.widget)
    return shown


@atexit.register
def _close_all() -> None:
    for shown in list(_shown.values()):
        shown.close()
