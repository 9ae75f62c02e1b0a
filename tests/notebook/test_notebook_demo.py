"""``show`` with a front end that answers as a page does."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest

from realtime_engine.infra.extras import MissingDependencyError
from realtime_engine.notebook import NotebookDemo, show
from realtime_engine.server import ServerConfig

from ..server.support import paint_demo

ORIGIN = "https://notebooks.example"


class FakeWidget:
    """The kernel's half of a widget."""

    def __init__(self, *, _esm: str) -> None:
        assert "export default" in _esm
        self.sent: list[dict[str, Any]] = []
        self._callback: Callable[[object, dict[str, Any], list[object]], None] | None = None

    def on_msg(self, callback: Callable[[object, dict[str, Any], list[object]], None]) -> None:
        self._callback = callback

    def send(self, content: dict[str, Any]) -> None:
        self.sent.append(content)

    def open_at(self, *origins: str) -> dict[str, Any]:
        """A page shows the widget; returns the reply."""
        assert self._callback is not None
        self._callback(self, {"origins": list(origins)}, [])
        return self.sent[-1]


@pytest.fixture(autouse=True)
def displayed(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[FakeWidget]]:
    """The widgets that the notebook displays."""
    displayed: list[FakeWidget] = []
    monkeypatch.setitem(sys.modules, "anywidget", SimpleNamespace(AnyWidget=FakeWidget))
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace())
    monkeypatch.setitem(sys.modules, "IPython.display", SimpleNamespace(display=displayed.append))
    yield displayed
    importlib.import_module("realtime_engine.notebook.notebook_demo")._close_all()


def get(shown: NotebookDemo, path: str, **headers: str) -> httpx.Response:
    return httpx.get(f"http://127.0.0.1:{shown.port}/{path}", headers=headers, timeout=10)


def test_the_server_starts_for_the_page_that_shows_the_widget() -> None:
    shown = show(paint_demo(), height=500)
    assert shown.port is None and not shown.is_running
    reply = shown.widget.open_at(ORIGIN)
    assert shown.is_running and reply == {"port": shown.port, "token": reply["token"], "height": 500}
    page = get(shown, "")
    assert page.status_code == 200 and f"frame-ancestors 'self' {ORIGIN}" in page.headers["content-security-policy"]
    assert get(shown, "api/demo").status_code == 401
    assert get(shown, "api/demo", Authorization=f"Bearer {reply['token']}").json()["name"] == "paint"


def test_a_second_view_gets_the_same_server_at_an_address_that_it_allows() -> None:
    shown = show(paint_demo())
    assert shown.widget.open_at(ORIGIN) == shown.widget.open_at(ORIGIN)
    assert "run the cell again" in shown.widget.open_at("https://other.example")["error"]


def test_a_cell_that_runs_again_replaces_the_server(displayed: list[FakeWidget]) -> None:
    first = show(paint_demo())
    first.widget.open_at(ORIGIN)
    second = show(paint_demo())
    assert not first.is_running and first.widget.sent[-1] == {"closed": True}
    second.widget.open_at(ORIGIN)
    assert second.is_running and displayed == [first.widget, second.widget]


def test_a_closed_demo_stays_closed() -> None:
    shown = show(paint_demo())
    shown.widget.open_at(ORIGIN)
    shown.close()
    shown.close()
    assert not shown.is_running and shown.widget.open_at(ORIGIN) == {"closed": True}
    assert repr(shown) == "<NotebookDemo 'paint': closed>"


def test_a_demo_that_was_never_shown_closes() -> None:
    shown = show(paint_demo())
    shown.close()
    assert not shown.is_running


def test_a_demo_that_cannot_be_served_says_why() -> None:
    shown = show(paint_demo(routes="no_such_module:router"))
    assert "no_such_module" in shown.widget.open_at(ORIGIN)["error"]


def test_settings_are_used_except_for_the_address(tmp_path: Path) -> None:
    shown = show(paint_demo(), config=ServerConfig(host="0.0.0.0", open=True, recordings=str(tmp_path)))
    reply = shown.widget.open_at(ORIGIN)
    assert get(shown, "api/demo", Authorization=f"Bearer {reply['token']}").json()["recording"]


def test_a_named_demo_is_loaded(displayed: list[FakeWidget]) -> None:
    assert repr(show("maze")) == "<NotebookDemo 'maze': not shown yet>"
    assert len(displayed) == 1


def test_without_the_extra_the_error_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "anywidget", None)
    with pytest.raises(MissingDependencyError, match=r"pip install 'realtime-engine\[notebook\]'"):
        show(paint_demo())
