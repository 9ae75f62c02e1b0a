from __future__ import annotations

import gzip
import re
from pathlib import Path

import pytest

from realtime_engine.demo import FrameFormat, PageStyle
from realtime_engine.server import create_app
from realtime_engine.server.page import POLICY, web_directory
from realtime_engine.server.revision import revision_of

from .support import in_process, paint_demo


async def test_the_web_client_is_served_with_a_strict_policy() -> None:
    async with in_process() as served:
        page = await served.client.get("/")
        assert page.status_code == 200 and page.text == (web_directory() / "index.html").read_text()
        assert page.headers["content-security-policy"] == POLICY + "frame-ancestors 'self'"
        assert page.headers["cache-control"] == "no-cache" and page.headers["referrer-policy"] == "no-referrer"
        module = await served.client.get("/js/app.js")
        assert "javascript" in module.headers["content-type"]


def test_the_policy_allows_what_the_page_needs() -> None:
    for allowed in ("connect-src 'self' ws: wss:", "img-src 'self' data: blob:", "script-src 'self'"):
        assert allowed in POLICY
    assert "unsafe" not in POLICY


async def test_the_address_with_the_token_sets_the_cookie() -> None:
    async with in_process(token="open sesame") as served:
        assert (await served.client.get("/")).status_code == 200
        assert (await served.client.get("/?token=wrong")).headers.get("set-cookie") is None
        entered = await served.client.get("/?token=open sesame")
        assert (entered.status_code, entered.headers["location"]) == (303, "./")
        cookie = entered.headers["set-cookie"].lower()
        assert "httponly" in cookie and "samesite=strict" in cookie
        assert (await served.client.get("/api/demo")).status_code == 200  # the client keeps the cookie
        assert (await served.client.post("/api/sessions", json={})).status_code == 201
        served.client.cookies.clear()
        assert (await served.client.get("/api/demo")).status_code == 401


async def test_a_demo_may_have_its_own_page_and_routes(tmp_path: Path) -> None:
    (tmp_path / "index.html").write_text("<p>mine</p>")
    demo = paint_demo(page=tmp_path, routes="tests.server.own_routes:router")
    async with in_process(demo) as served:
        assert (await served.client.get("/api/demo")).json()["page"] == "demos/paint/"
        assert (await served.client.get("/demos/paint/")).text == "<p>mine</p>"
        assert (await served.client.get("/demos/paint/api/hello")).json() == {"hello": "paint"}
        assert (await served.client.get("/demos/other/api/hello")).status_code == 404


async def test_pages_of_allowed_origins_may_import_the_element() -> None:
    async with in_process(allowed_origins=("https://site.example",)) as served:
        for origin, allowed in (("https://site.example", "https://site.example"), ("https://other.example", None)):
            module = await served.client.get("/realtime-engine.js", headers={"Origin": origin})
            assert module.status_code == 200 and module.headers.get("access-control-allow-origin") == allowed


async def test_code_has_its_type_whatever_the_machine_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mimetypes.guess_type", lambda *_, **__: ("text/plain", None))
    async with in_process() as served:
        for path, kind in (("/", "text/html"), ("/js/app.js", "text/javascript"), ("/style.css", "text/css")):
            assert (await served.client.get(path)).headers["content-type"] == f"{kind}; charset=utf-8"


async def test_allowed_origins_may_frame_both_pages(tmp_path: Path) -> None:
    (tmp_path / "index.html").write_text("<p>paint</p>")
    origins = ("https://example.org", "http://other.example:8080")
    async with in_process(paint_demo(page=tmp_path), allowed_origins=origins) as served:
        for path in ("/", "/demos/paint/"):
            policy = (await served.client.get(path)).headers["content-security-policy"]
            assert policy.endswith("frame-ancestors 'self' https://example.org http://other.example:8080")


@pytest.mark.parametrize(("scheme", "origins"), [("https", ("https://example.org",)), ("https", ()), ("http", ())])
async def test_the_cookie_fits_the_use_of_the_page(scheme: str, origins: tuple[str, ...]) -> None:
    async with in_process(token="correct horse", allowed_origins=origins) as served:
        url = f"{scheme}://localhost:9000/?token=correct horse"
        cookie = (await served.client.get(url)).headers["set-cookie"]
        assert re.match(r"realtime_engine_access_[0-9a-f]{8}=", cookie)
        assert ("SameSite=none" in cookie, "Partitioned" in cookie) == (bool(origins),) * 2
        assert ("Secure" in cookie) == (scheme == "https")


async def test_a_demos_page_redirects_to_the_address_with_a_slash(tmp_path: Path) -> None:
    (tmp_path / "index.html").write_text("<p>mine</p>")
    async with in_process(paint_demo(page=tmp_path)) as served:
        led = await served.client.get("/demos/paint?transport=mjpeg")
        assert (led.status_code, led.headers["location"]) == (308, "paint/?transport=mjpeg")
    async with in_process() as served:
        assert (await served.client.get("/demos/paint")).status_code == 404


def test_a_router_of_the_wrong_type_is_refused() -> None:
    with pytest.raises(TypeError, match="must be a fastapi.APIRouter"):
        create_app(paint_demo(routes="tests.server.own_routes:hello"))


async def test_the_cookies_of_two_servers_below_two_paths_of_one_address_are_apart() -> None:
    async with in_process(token="correct horse") as one, in_process(token="battery staple") as other:
        names = set()
        for served, token in ((one, "correct horse"), (other, "battery staple")):
            entered = await served.client.get(f"/?token={token}")
            names.add(entered.headers["set-cookie"].partition("=")[0])
        assert len(names) == 2


MAX_PAGE_BYTES = 150_000


async def test_the_page_weighs_less_than_150_kb_in_all() -> None:
    files = [path for path in web_directory().rglob("*") if path.is_file()]
    async with in_process(paint_demo()) as served:
        sizes = []
        for path in files:
            name = path.relative_to(web_directory()).as_posix()
            async with served.client.stream("GET", f"/{name}", headers={"Accept-Encoding": "gzip"}) as answer:
                assert answer.status_code == 200
                assert (answer.headers["content-encoding"], answer.headers["vary"]) == ("gzip", "Accept-Encoding")
                raw = b"".join([part async for part in answer.aiter_raw()])
                assert gzip.decompress(raw) == path.read_bytes()
                sizes.append(len(raw))
    assert sum(sizes) < MAX_PAGE_BYTES


async def test_a_page_that_is_known_is_not_sent_again() -> None:
    async with in_process(paint_demo()) as served:
        for encoding in ("gzip", "identity"):
            first = await served.client.get("/style.css", headers={"Accept-Encoding": encoding})
            assert first.text == (web_directory() / "style.css").read_text()
            assert ("content-encoding" in first.headers) == (encoding == "gzip")
            known = {"Accept-Encoding": encoding, "If-None-Match": first.headers["etag"]}
            again = await served.client.get("/style.css", headers=known)
            assert (again.status_code, again.content) == (304, b"")


async def test_a_demo_may_style_the_page(tmp_path: Path) -> None:
    (tmp_path / "extra.css").write_text(":root { --radius: 0 }")
    (tmp_path / "logo.svg").write_text("<svg xmlns='http://www.w3.org/2000/svg'/>")
    style = PageStyle(folder=tmp_path, logo="logo.svg", help="Walk.", hud=("score",), colors={"accent": "teal"})
    demo = paint_demo(style=style, frames=FrameFormat(pixel_aspect=1.5, scaling="sharp"))
    async with in_process(demo) as served:
        described = (await served.client.get("/api/demo")).json()
        assert described["style"] == {
            "base": "demos/paint/style/",
            "files": ["extra.css"],
            "logo": "logo.svg",
            "help": "Walk.",
            "footer": "",
            "hud": ["score"],
            "theme": "auto",
            "colors": {"accent": "teal"},
        }
        assert (described["video"]["pixel_aspect"], described["video"]["scaling"]) == (1.5, "sharp")
        for name, kind in (("extra.css", "text/css; charset=utf-8"), ("logo.svg", "image/svg+xml")):
            answer = await served.client.get(described["style"]["base"] + name)
            assert (answer.status_code, answer.headers["content-type"]) == (200, kind)
            assert answer.headers["content-security-policy"] == POLICY + "frame-ancestors 'self'"
        assert revision_of(demo) != revision_of(paint_demo(frames=demo.frames))
        assert revision_of(demo) != revision_of(paint_demo(style=style))
