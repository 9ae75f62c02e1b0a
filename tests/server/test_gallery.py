"""Several demos in one server: their paths, their states, and that one fails without the others."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urljoin

import httpx
import pytest

from realtime_engine.infra.demo import Demo
from realtime_engine.server import ServerConfig, create_gallery_app
from realtime_engine.server.gallery import unique_names

from .support import PaintEngine, jpeg_color, location_of, paint_demo, until


def broken(options: object) -> PaintEngine:
    raise OSError("no weights at all")


DEMOS = (
    paint_demo(name="one", title="One", description="The first."),
    paint_demo(name="two", title="Two", build=lambda options: PaintEngine(max_sessions=1)),
    paint_demo(name="broken", title="Broken", build=broken),
)


class Served:
    def __init__(self, client: httpx.AsyncClient) -> None:
        self.client = client

    async def demos(self) -> dict[str, dict[str, Any]]:
        response = await self.client.get("/api/demos")
        assert response.status_code == 200, response.text
        return {demo["name"]: demo for demo in response.json()["demos"]}

    async def load(self, name: str, state: str = "ready") -> None:
        await self.client.get(f"/demos/{name}/")
        while (await self.demos())[name]["state"] != state:
            await until(lambda: True)

    async def play(self, name: str) -> dict[str, Any]:
        response = await self.client.post(f"/demos/{name}/api/sessions", json={})
        assert response.status_code == 201, response.text
        return dict(response.json())


@asynccontextmanager
async def served(*demos: Demo, headers: dict[str, str] | None = None, **config: Any) -> AsyncIterator[Served]:
    app = create_gallery_app(demos or DEMOS, ServerConfig(**config))
    async with app.router.lifespan_context(app):
        transport = httpx.ASGITransport(app, raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost", headers=headers) as client:
            yield Served(client)


async def test_the_gallery_shows_the_demos_without_loading_them() -> None:
    async with served() as server:
        page = await server.client.get("/")
        assert page.status_code == 200 and "gallery.js" in page.text
        assert (await server.client.get("/index.html")).text == page.text
        demos = await server.demos()
        assert list(demos) == ["one", "two", "broken"]
        assert demos["one"] == {
            "name": "one", "title": "One", "description": "The first.", "state": "unloaded", "progress": None,
            "error": None, "capacity": None, "playing": 0, "waiting": 0, "links": {"page": "demos/one/"},
        }  # fmt: skip
        for link in ("/healthz", "/readyz"):
            assert (await server.client.get(link)).status_code == 200


async def test_the_page_of_a_demo_declares_that_its_api_is_below_it() -> None:
    root = '<meta name="realtime-engine-root" content="./">'
    async with served() as server:
        for path in ("/demos/one/", "/demos/one/index.html"):
            page = await server.client.get(path)
            assert page.text.count(root) == 1 and page.headers["content-type"] == "text/html; charset=utf-8"
            assert "script-src 'self'" in page.headers["content-security-policy"]
        assert (await server.client.get("/demos/one/style.css")).status_code == 200
        assert root not in (await server.client.get("/")).text


async def test_each_demo_has_an_engine_and_limits_of_its_own() -> None:
    async with served() as server:
        await server.load("one")
        await server.load("two")
        sessions = [await server.play("one"), await server.play("one"), await server.play("two")]
        assert len({session["session_id"] for session in sessions}) == 3
        waiting = await server.client.post("/demos/two/api/sessions", json={})
        assert waiting.status_code == 202
        demos = await server.demos()
        assert [demos[name]["capacity"] for name in ("one", "two")] == [2, 1]
        assert [demos[name]["playing"] for name in ("one", "two")] == [2, 1]
        assert [demos[name]["waiting"] for name in ("one", "two")] == [0, 1]
        assert (await server.client.get("/demos/two/" + sessions[0]["links"]["self"])).status_code == 404


async def test_one_fails_without_the_others() -> None:
    async with served() as server:
        await server.load("broken", "failed")
        await server.load("one")
        demos = await server.demos()
        assert demos["broken"]["error"] == "OSError: no weights at all"
        assert [demos[name]["state"] for name in demos] == ["ready", "unloaded", "failed"]
        assert (await server.client.post("/demos/broken/api/sessions", json={})).status_code == 503
        await server.play("one")


async def test_the_picture_is_that_of_the_newest_session_and_stays() -> None:
    async with served() as server:
        assert (await server.client.get("/api/demos/one/picture.jpg")).json()["type"].endswith(":no-frame")
        assert (await server.client.get("/api/demos/three/picture.jpg")).json()["type"].endswith(":not-found")
        await server.load("one")
        grant = await server.play("one")
        auth = {"Authorization": f"Bearer {grant['token']}"}
        address = "/" + (await server.demos())["one"]["links"]["picture"]
        frame = "/demos/one/" + grant["links"]["frame"]
        while (await server.client.get(frame, headers=auth)).status_code != 200:
            await until(lambda: True)
        picture = await server.client.get(address)
        assert picture.headers["content-type"] == "image/jpeg" and jpeg_color(picture.content)
        await server.client.delete("/demos/one/" + grant["links"]["self"], headers=auth)
        assert (await server.client.get(address)).content == picture.content
        assert "picture" in (await server.demos())["one"]["links"]


async def test_a_closed_lobby_shows_no_picture() -> None:
    async with served(lobby="off") as server:
        await server.load("one")
        await server.play("one")
        assert (await server.demos())["one"]["links"] == {"page": "demos/one/"}
        assert (await server.client.get("/api/demos/one/picture.jpg")).status_code == 404


async def test_the_metrics_name_the_demo() -> None:
    async with served() as server:
        assert "realtime_engine_ready{" not in (await server.client.get("/metrics")).text
        await server.load("one")
        await server.load("two")
        await server.load("broken", "failed")
        await server.play("two")
        text = (await server.client.get("/metrics")).text
        for line in ('ready{demo="one"} 1.0', 'ready{demo="broken"} 0.0', 'sessions{demo="two"} 1.0'):
            assert f"realtime_engine_{line}\n" in text
        assert text.count("# TYPE realtime_engine_ready gauge") == 1


async def test_the_token_protects_all_demos() -> None:
    async with served(token="correct horse") as server:
        client = server.client
        for path in ("/api/demos", "/metrics", "/demos/one/api/demo", "/api/demos/one/picture.jpg"):
            assert (await client.get(path)).status_code == 401
        assert (await client.get("/")).status_code == 200
        assert (await client.get("/?token=correct horse")).status_code == 303
        assert (await client.get("/api/demos")).status_code == 200
        assert (await client.get("/demos/one/api/demo")).status_code == 200, "the cookie is for all"


@pytest.mark.parametrize("root_path", ["", "/site"])
async def test_links_are_right_below_a_prefix(root_path: str, tmp_path: Path) -> None:
    (tmp_path / "index.html").write_text("<p>paint</p>")
    async with served(paint_demo(page=tmp_path), root_path=root_path) as server:
        await server.load("paint")
        created = await server.client.post("/demos/paint/api/sessions", json={})
        assert location_of(created) == f"/demos/paint/{created.json()['links']['self']}"
        slash = await server.client.get("/demos/paint?watch=x")
        assert urljoin("/demos/paint", slash.headers["location"]) == "/demos/paint/?watch=x"
        own = (await server.client.get("/demos/paint/api/demo")).json()["page"]
        assert (await server.client.get(f"/demos/paint/{own}")).text == "<p>paint</p>"


async def test_links_behind_a_proxy_that_leaves_the_prefix() -> None:
    async with served(paint_demo(), root_path="/site") as server:
        assert (await server.client.get("/site/demos/paint/api/demo")).status_code == 200


def test_names_are_made_unique() -> None:
    assert unique_names(["maze", "my", "maze", "maze-2", "maze"]) == ["maze", "my", "maze-3", "maze-2", "maze-4"]


def test_mistakes_are_reported_before_the_first_use() -> None:
    with pytest.raises(ValueError, match="at least one demo"):
        create_gallery_app([])
    with pytest.raises(ModuleNotFoundError, match="no_such_module"):
        create_gallery_app([paint_demo(routes="no_such_module:router")])
