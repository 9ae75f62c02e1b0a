"""A page of another site shows the demo by ``<realtime-engine>``, and by the package's ``connect``."""

from __future__ import annotations

import functools
import json
import threading
from collections.abc import Callable, Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.request import urlopen

import pytest

from ..browser import PAGE_TIMEOUT_MS
from .maze import MazeServer
from .walker import SIGHT, Walker

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

EXAMPLE = Path(__file__).parents[2] / "clients" / "js" / "examples" / "page.html"
ELEMENT = "document.querySelector('realtime-engine')"
ARTICLE = "<!doctype html><html lang=en><title>An article</title><style>* {{ display: block }}</style>{body}</html>"


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:
        """Requests are not logged."""


class Site:
    """Another site: static pages at an origin of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        handler = functools.partial(Quiet, directory=str(folder))
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self.origin = f"http://localhost:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    def publish(self, text: str) -> None:
        (self.folder / "index.html").write_text(text, encoding="utf-8")

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    site = Site(tmp_path)
    yield site
    site.close()


@pytest.fixture
def demo(chromium: str, site: Site) -> Iterator[MazeServer]:
    with MazeServer("--max-sessions", "2", "--allowed-origin", site.origin) as server:
        yield server


@pytest.fixture
def read(browser: Browser, site: Site) -> Iterator[Callable[[str], Page]]:
    """Opens a page of the site that has this text; at the end, it may have logged no error."""
    pages: list[Page] = []
    errors: list[str] = []

    def open_page(text: str) -> Page:
        site.publish(text)
        page = browser.new_context().new_page()
        page.set_default_timeout(PAGE_TIMEOUT_MS)
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.on("console", lambda message: errors.append(message.text) if message.type == "warning" else None)
        page.add_init_script(path=SIGHT)
        page.goto(site.origin)
        pages.append(page)
        return page

    yield open_page
    for page in pages:
        page.context.close()
    assert errors == []


def until_state(page: Page, state: str) -> None:
    page.wait_for_function(f"state => {ELEMENT}.session?.state.state === state", arg=state)


def sessions(demo: MazeServer) -> int:
    with urlopen(demo.url + "api/sessions", timeout=10) as response:
        return len(json.load(response)["sessions"])


def article(demo: MazeServer, attributes: str = "", body: str = "") -> str:
    script = f'<script type="module" src="{demo.url}realtime-engine.js"></script>'
    tag = f'<realtime-engine src="{demo.url}" {attributes}></realtime-engine>'
    return ARTICLE.format(body=script + tag + body)


def test_the_example_page_plays_and_keys_count_while_the_element_has_the_focus(
    demo: MazeServer, site: Site, read: Callable[[str], Page]
) -> None:
    page = read(EXAMPLE.read_text(encoding="utf-8").replace("http://127.0.0.1:8000/", demo.url))
    until_state(page, "live")
    visitor = Walker(page)
    visitor.until_still()
    visitor.keep("start")
    page.locator("#notes").focus()
    page.keyboard.type("wwww")
    assert page.locator("#notes").input_value() == "wwww"
    visitor.until_back("start")
    page.locator("realtime-engine").focus()
    assert page.evaluate(f"{ELEMENT}.shadowRoot.activeElement.id") == "stage"
    with visitor.holding("ArrowRight"):
        visitor.until_elsewhere("start")
    page.keyboard.down("KeyW")
    page.locator("#notes").focus()  # what is held is released with the focus
    visitor.until_still()
    page.keyboard.up("KeyW")


@pytest.mark.parametrize("transport", ["webcodecs", "mjpeg"])
def test_video_comes_from_another_origin_without_webrtc(
    demo: MazeServer, read: Callable[[str], Page], transport: str
) -> None:
    page = read(article(demo, f'autoplay transport="{transport}"'))
    until_state(page, "live")
    Walker(page).until_still()
    assert page.evaluate(f"{ELEMENT}.session.media.tagName") == {"webcodecs": "CANVAS", "mjpeg": "IMG"}[transport]


def test_without_autoplay_a_session_starts_with_a_click(demo: MazeServer, read: Callable[[str], Page]) -> None:
    started = demo.log.count(" started; ")
    page = read(article(demo, 'title="Maze"'))
    page.get_by_role("button", name="Play").wait_for()
    assert demo.log.count(" started; ") == started
    page.get_by_role("button", name="Play").click()
    until_state(page, "live")
    assert page.evaluate(f"{ELEMENT}.shadowRoot.activeElement.id") == "stage"
    assert "The Maze, live video" in (page.locator("realtime-engine .stage").get_attribute("aria-label") or "")


def test_two_elements_have_a_session_each_and_return_to_it(demo: MazeServer, read: Callable[[str], Page]) -> None:
    second = f'<realtime-engine src="{demo.url}" autoplay></realtime-engine>'
    page = read(article(demo, "autoplay", second))
    both = "[...document.querySelectorAll('realtime-engine')]"
    all_live = f"{both}.length === 2 && {both}.every(element => element.session?.state.state === 'live')"
    page.wait_for_function(all_live)
    assert sessions(demo) == 2
    page.reload()
    page.wait_for_function(all_live)
    assert sessions(demo) == 2


def test_an_element_that_is_removed_ends_its_session(demo: MazeServer, read: Callable[[str], Page]) -> None:
    page = read(article(demo, "autoplay"))
    until_state(page, "live")
    with page.expect_response(lambda response: response.request.method == "DELETE" and "/whep" not in response.url):
        page.evaluate(f"{ELEMENT}.remove()")
    assert sessions(demo) == 0


def test_a_program_drives_a_session(demo: MazeServer, read: Callable[[str], Page]) -> None:
    page = read(ARTICLE.format(body="<realtime-engine></realtime-engine>"))
    page.evaluate(
        """async (url) => {
          const { connect } = await import(`${url}realtime-engine.js`);
          const element = document.querySelector("realtime-engine");
          const session = connect(url, { context: { seed: 7 } });
          Object.defineProperty(element, "session", { value: session, configurable: true });
          document.body.append(session.element);
          await session.ready;
        }""",
        demo.url,
    )
    visitor = Walker(page)
    visitor.until_still()
    visitor.keep("start")
    page.evaluate(f"{ELEMENT}.session.sendControls({{ keys: ['ArrowRight'] }})")
    visitor.until_elsewhere("start")
    page.evaluate(f"{ELEMENT}.session.sendControls({{ keys: [] }})")
    visitor.until_still()
    page.evaluate(f"{ELEMENT}.session.reset()")
    visitor.until_back("start")
    page.evaluate(f"{ELEMENT}.session.close()")
    assert page.evaluate(f"{ELEMENT}.session.state.state") == "ended"


def test_an_impatient_client_leaves_the_line(demo: MazeServer, read: Callable[[str], Page]) -> None:
    second = f'<realtime-engine src="{demo.url}" autoplay></realtime-engine>'
    page = read(article(demo, "autoplay", second))
    page.wait_for_function("document.querySelectorAll('realtime-engine')[1]?.session?.state.state === 'live'")
    rejected = page.evaluate(
        """async (url) => {
          const { connect } = await import(`${url}realtime-engine.js`);
          const session = connect(url, { queueTimeout: 0 });
          const positions = [];
          session.on("ticket", ({ position }) => positions.push(position));
          const reason = await session.ready.catch((error) => error.message);
          return { reason, positions };
        }""",
        demo.url,
    )
    assert rejected == {"reason": "You have left the line.", "positions": [1]}


def test_a_server_with_a_token_admits_the_element_that_has_it(
    chromium: str, site: Site, read: Callable[[str], Page]
) -> None:
    with MazeServer("--token", "open-sesame", "--allowed-origin", site.origin) as demo:
        url = demo.url.partition("?")[0]
        script = f'<script type="module" src="{url}realtime-engine.js"></script>'
        tag = f'<realtime-engine src="{url}" token="open-sesame" autoplay></realtime-engine>'
        until_state(read(ARTICLE.format(body=script + tag)), "live")
