"""docs/http.md lists exactly the routes, members and problems of the server."""

from __future__ import annotations

import re
from pathlib import Path

import httpx

from realtime_engine.server import create_gallery_app
from realtime_engine.server.problems import TITLES

from ..server.support import in_process, paint_demo

PAGE = (Path(__file__).parents[2] / "docs" / "http.md").read_text()


async def test_every_route_is_listed() -> None:
    listed = set(re.findall(r"^\| `(GET|POST|PATCH|DELETE) (/\S*)` \|", PAGE, re.MULTILINE))
    async with in_process() as served:
        paths = (await served.client.get("/openapi.json")).json()["paths"]
    paths |= create_gallery_app([paint_demo()]).openapi()["paths"]
    assert listed == {(method.upper(), path) for path, methods in paths.items() for method in methods}


def test_every_problem_is_listed_with_its_status() -> None:
    listed = re.findall(r"^\| `([a-z-]+)` \| (\d+) \|", PAGE, re.MULTILINE)
    assert [(kind, int(status)) for kind, status in listed] == [(kind, TITLES[kind][0]) for kind in TITLES]


def test_the_example_problem_has_the_title_of_its_type() -> None:
    status, title = TITLES["invalid-context"]
    assert f'"title": "{title}", "status": {status},' in PAGE


async def test_the_members_of_the_demo_and_of_a_session_are_listed() -> None:
    async with in_process() as served:
        owned = await served.create()
        demo = (await served.client.get("/api/demo")).json()
        session = (await owned.request("GET", "self")).json()
    table = PAGE.partition("### The demo")[2].partition("###")[0]
    listed = [
        name for row in re.findall(r"^\| (`.*?`) \|", table, re.MULTILINE) for name in row.strip("`").split("`, `")
    ]
    assert listed == list(demo)
    assert all(f'"{name}"' in PAGE for name in [*session, *session["links"]])


async def test_the_members_of_a_demo_in_the_gallery_are_listed() -> None:
    app = create_gallery_app([paint_demo()])
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost") as client:
        (demo,) = (await client.get("/api/demos")).json()["demos"]
    section = PAGE.partition("## Several demos")[2].partition("\n## ")[0]
    assert all(f'"{name}"' in section for name in demo)
