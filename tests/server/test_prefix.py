"""A server below a path prefix: behind a proxy, or mounted in another application."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import urljoin

import httpx
import pytest
from fastapi import FastAPI
from starlette.types import ASGIApp, Receive, Scope, Send

from realtime_engine.infra.webrtc import WebRtcReceiver
from realtime_engine.server import ServerConfig, create_app
from realtime_engine.server.prefix import TrustedProxies

from .support import in_process, paint_demo, until

PREFIX = "/demo"


class Stripping:
    """A proxy that removes the prefix, as ``proxy_pass`` with a path does."""

    def __init__(self, app: ASGIApp, header: bool = False) -> None:
        self._app = app
        self._header = header

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        assert scope["path"].startswith(PREFIX + "/")
        headers = [*scope["headers"], (b"x-forwarded-prefix", PREFIX.encode())] if self._header else scope["headers"]
        await self._app({**scope, "path": scope["path"].removeprefix(PREFIX), "headers": headers}, receive, send)


@asynccontextmanager
async def behind(app: ASGIApp) -> AsyncIterator[httpx.AsyncClient]:
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url=f"http://localhost{PREFIX}/") as client:
        yield client


WAYS = ["silent proxy", "proxy with a header", "root path, stripped", "root path, whole", "mounted"]


@asynccontextmanager
async def served(way: str, tmp_path: Path, **config: object) -> AsyncIterator[httpx.AsyncClient]:
    for folder in (tmp_path, tmp_path / "more"):
        folder.mkdir(exist_ok=True)
        (folder / "index.html").write_text("<p>paint</p>")
    demo = paint_demo(page=tmp_path)
    if way == "mounted":
        app = create_app(demo, ServerConfig(**config))  # type: ignore[arg-type]

        @asynccontextmanager
        async def lifespan(parent: FastAPI) -> AsyncIterator[None]:
            async with app.router.lifespan_context(app):
                yield

        parent = FastAPI(lifespan=lifespan)
        parent.mount(PREFIX, app)
        async with parent.router.lifespan_context(parent), behind(parent) as client:
            await until(lambda: app.state.runtime.host.manifest is not None)
            yield client
        return
    root_path = PREFIX if way.startswith("root path") else ""
    async with in_process(demo, root_path=root_path, **config) as inner:
        trusting = TrustedProxies(inner.app)
        proxied = inner.app if way == "root path, whole" else Stripping(trusting, header=way == "proxy with a header")
        async with behind(proxied) as client:
            yield client


@pytest.mark.parametrize("way", WAYS)
async def test_every_link_is_right_below_the_prefix(way: str, tmp_path: Path) -> None:
    async with served(way, tmp_path) as client:
        page = str(client.base_url)
        assert (await client.get("")).status_code == 200
        demo = (await client.get("api/demo")).json()
        assert (await client.get(urljoin(page, demo["page"]))).status_code == 200
        created = await client.post("api/sessions", json={})
        grant = created.json()
        headers = {"Authorization": f"Bearer {grant['token']}"}
        assert all(urljoin(page, link).startswith(page + "api/sessions/") for link in grant["links"].values())
        assert (await client.get(urljoin(page, grant["links"]["self"]), headers=headers)).status_code == 200
        assert urljoin(str(created.url), created.headers["location"]) == urljoin(page, grant["links"]["self"])
        receiver = WebRtcReceiver()
        offered = {**headers, "Content-Type": "application/sdp"}
        whep = urljoin(page, grant["links"]["whep"])
        answer = await client.post(whep, content=await receiver.offer(), headers=offered)
        viewer = urljoin(whep, answer.headers["location"])
        assert viewer.startswith(f"{whep}/")
        assert (await client.delete(viewer, headers=headers)).status_code == 204
        await receiver.close()
        await client.delete(urljoin(page, grant["links"]["self"]), headers=headers)


@pytest.mark.parametrize("way", WAYS)
async def test_redirects_stay_below_the_prefix(way: str, tmp_path: Path) -> None:
    async with served(way, tmp_path, token="correct horse") as client:
        login = await client.get("?token=correct horse&watch=x")
        assert login.status_code == 303
        assert urljoin(str(login.url), login.headers["location"]) == f"{client.base_url}?watch=x"
        for folder in ("demos/paint", "demos/paint/more"):
            slash = await client.get(f"{folder}?a=1")
            assert "://" not in slash.headers["location"]
            assert urljoin(str(slash.url), slash.headers["location"]) == f"{client.base_url}{folder}/?a=1"


async def test_the_prefix_itself_leads_to_the_page() -> None:
    async with in_process(root_path=PREFIX) as inner:
        response = await inner.client.get(PREFIX)
        assert urljoin(str(response.url), response.headers["location"]) == "http://localhost/demo/"


INVALID = ["//evil.example", "/a b", "/a\\b", "demo", "/" + "x" * 300, "/a?b", "/api", "/demos/paint"]


@pytest.mark.parametrize("prefix", INVALID)
async def test_an_invalid_prefix_is_ignored(prefix: str) -> None:
    async with in_process() as inner, direct(TrustedProxies(inner.app)) as client:
        assert (await client.get("/api/demo", headers={"X-Forwarded-Prefix": prefix})).status_code == 200


@asynccontextmanager
async def direct(app: ASGIApp, address: str = "127.0.0.1") -> AsyncIterator[httpx.AsyncClient]:
    """A client with this address, without a proxy."""
    transport = httpx.ASGITransport(app, client=(address, 4000))
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
        yield client


@pytest.mark.parametrize(("address", "status"), [("127.0.0.1", 200), ("192.0.2.7", 404)])
async def test_only_a_trusted_proxy_names_the_prefix(address: str, status: int) -> None:
    async with in_process() as inner, direct(TrustedProxies(inner.app), address) as client:
        named = {"X-Forwarded-Prefix": "/hidden"}
        assert (await client.get("/hidden/metrics", headers=named)).status_code == status


async def test_without_trusted_proxies_the_header_is_ignored() -> None:
    async with in_process() as inner:
        named = {"X-Forwarded-Prefix": "/hidden"}
        assert (await inner.client.get("/hidden/metrics", headers=named)).status_code == 404


async def test_a_mounted_application_works_behind_a_proxy_that_names_a_prefix() -> None:
    async with in_process() as inner:
        parent = FastAPI()
        parent.mount(PREFIX, inner.app)
        async with direct(TrustedProxies(parent)) as client:
            answer = await client.get(f"{PREFIX}/api/demo", headers={"X-Forwarded-Prefix": "/outer"})
            assert answer.status_code == 200


async def test_an_application_that_was_not_started_says_how() -> None:
    parent = FastAPI()
    parent.mount(PREFIX, create_app(paint_demo(), ServerConfig()))
    transport = httpx.ASGITransport(parent)
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
        with pytest.raises(RuntimeError, match="the application was not started.*lifespan_context"):
            await client.get("/demo/api/demo")
