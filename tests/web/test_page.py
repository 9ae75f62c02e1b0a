"""The page in a real browser, against the mock server: the picture, the session, the looks."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from .conftest import Opener
from .mock_server import MockServer
from .steps import MJPEG, WEBCODECS, controls, live, stat

NO_WEBRTC = "delete window.RTCPeerConnection"
NO_WEBCODECS = "delete window.VideoDecoder"
ALL = ["webrtc", "webcodecs", "mjpeg"]
# What a page gets of a multipart stream where the browser takes it apart itself: the first picture, and no more.
FIRST_PART_ONLY = """
    const fetched = window.fetch;
    window.fetch = (url, options) =>
        String(url).includes(".mjpeg")
            ? Promise.resolve(new Response("a picture", { headers: { "Content-Type": "image/jpeg" } }))
            : fetched(url, options);
"""


# -- picture


def test_the_picture_comes_by_webrtc(visit: Opener, server: MockServer) -> None:
    page = live(visit())
    expect(page.locator("#video")).to_have_js_property("videoWidth", 640)
    expect(page.locator("#image")).to_be_hidden()
    expect(page.locator("#overlay")).to_be_hidden()
    expect(page.locator("#notice")).to_be_hidden()
    expect(page.locator("#record")).to_be_hidden()
    expect(page.locator('[data-stat="fps"]')).to_have_text(re.compile(r"^\d+ fps$"))
    assert (stat(page, "transport"), stat(page, "resolution")) == ("WebRTC", "640×360")
    server.wait_for(lambda: server.count("PATCH", "/whep/1") > 0, "trickled candidates")
    fragment = next(body for method, path, body in server.calls if method == "PATCH" and path.endswith("/whep/1"))
    assert re.search(r"^a=ice-ufrag:\S+\r\na=ice-pwd:\S+\r\nm=video .*\r\na=mid:0\r\na=candidate:", fragment)


def test_the_picture_comes_by_mjpeg_when_the_address_asks_for_it(visit: Opener, server: MockServer) -> None:
    page = live(visit(MJPEG))
    expect(page.locator("#image")).to_be_visible()
    expect(page.locator("#video")).to_be_hidden()
    expect(page.locator('[data-stat="resolution"]')).to_have_text("640×360")
    assert stat(page, "transport") == "MJPEG"
    assert server.count("POST", "/whep") == 0


def test_the_picture_comes_by_webcodecs_when_the_address_asks_for_it(visit: Opener, server: MockServer) -> None:
    page = live(visit(WEBCODECS))
    expect(page.locator("#canvas")).to_be_visible()
    expect(page.locator("#video")).to_be_hidden()
    expect(page.locator("#notice")).to_be_hidden()
    expect(page.locator('[data-stat="fps"]')).to_have_text(re.compile(r"^\d+ fps$"))
    assert (stat(page, "transport"), stat(page, "resolution")) == ("WebCodecs", "640×360")
    server.wait_for(lambda: server.acknowledged > 25, "acknowledgements beyond a second keyframe")
    page.click("#stats-toggle")
    expect(page.locator("#details")).to_contain_text("H264")
    brightness = """() => {
        const context = document.getElementById("canvas").getContext("2d");
        return context.getImageData(320, 20, 1, 1).data[0];
    }"""
    assert page.evaluate(brightness) > 100, "what the synthetic pictures show there"
    assert server.count("POST", "/whep") == 0


def test_a_browser_that_hides_the_stream_shows_it_plainly(visit: Opener, server: MockServer) -> None:
    page = live(visit(MJPEG, script=FIRST_PART_ONLY, refusals=20))
    expect(page.locator("#image")).to_have_js_property("naturalWidth", 640)
    assert server.count("GET", "/stream.mjpeg") == 1
    expect(page.locator('[data-stat="resolution"]')).to_have_text("640×360")
    assert stat(page, "fps") == "–", "what cannot be counted is not guessed"
    server.end_sessions()
    server.wait_for(lambda: server.count("POST", "/api/sessions") == 2, "a new session after the stream has ended")
    live(page)


@pytest.mark.parametrize("query", ["", WEBCODECS, MJPEG])
def test_key_to_pixel_is_measured(visit: Opener, query: str) -> None:
    page = live(visit(query))
    page.keyboard.press("KeyW")
    page.keyboard.press("KeyD")
    expect(page.locator('[data-stat="latency"]')).to_have_text(re.compile(r"^\d+ ms$"))


def test_the_details_are_shown_on_demand(visit: Opener) -> None:
    page = live(visit())
    expect(page.locator("#details")).to_be_hidden()
    page.click("#stats-toggle")
    expect(page.locator("#details")).to_contain_text("VP8")
    expect(page.locator("#details dl")).not_to_contain_text("Key to pixel")
    page.keyboard.press("KeyW")
    expect(page.locator("#details dl")).to_contain_text("Key to pixel")


def test_key_to_pixel_is_not_shown_where_there_are_no_keys(visit: Opener, server: MockServer) -> None:
    expect(live(visit()).locator("#key-to-pixel")).to_be_visible()
    server.behaviour.keys = []
    expect(live(visit()).locator("#key-to-pixel")).to_be_hidden()


def test_the_numbers_stand_beside_the_buttons(visit: Opener) -> None:
    page = live(visit(WEBCODECS))
    page.set_viewport_size({"width": 1280, "height": 800})
    page.keyboard.press("KeyW")
    expect(page.locator('[data-stat="latency"]')).to_have_text(re.compile(r"^\d+ ms$"))
    page.click("#stats-toggle")
    expect(page.locator("#trace")).to_be_visible()
    page.click("#pause")
    expect(page.locator("#pause")).to_have_text("Resume")
    bar, trace, numbers = (page.locator(name).bounding_box() for name in (".bar", "#trace", "#stats"))
    assert bar and trace and numbers
    assert bar["y"] <= numbers["y"] < trace["y"] + trace["height"]


# -- fallback


def test_a_refused_offer_falls_back_and_says_why(visit: Opener, server: MockServer) -> None:
    server.behaviour.whep = "refuse"
    page = live(visit(refusals=1))
    expect(page.locator("#notice")).to_contain_text("WebRTC could not connect (No UDP port is free): showing MJPEG")
    expect(page.locator("#image")).to_be_visible()
    assert server.count("POST", "/api/sessions") == 1, "the session stays the same"


def test_blocked_udp_falls_back_and_says_why(visit: Opener, server: MockServer) -> None:
    server.behaviour.whep = "deaf"
    page = live(visit())
    expect(page.locator("#notice")).to_contain_text("WebRTC could not connect (UDP blocked?): showing MJPEG")
    server.wait_for(lambda: server.count("DELETE", "/whep/1") == 1, "the page to hang up")


def test_a_browser_without_webrtc_falls_back_and_says_why(visit: Opener, server: MockServer) -> None:
    page = live(visit(script=NO_WEBRTC))
    expect(page.locator("#notice")).to_contain_text("This browser has no WebRTC: showing MJPEG")
    expect(page.locator("#notice-retry")).to_be_hidden()
    assert server.count("POST", "/whep") == 0


def test_webcodecs_is_the_second_choice_and_says_why(visit: Opener, server: MockServer) -> None:
    server.behaviour.transports = ALL
    server.behaviour.whep = "refuse"
    page = live(visit(refusals=1))
    expect(page.locator("#notice")).to_contain_text("WebRTC could not connect (No UDP port is free): showing WebCodecs")
    expect(page.locator("#canvas")).to_be_visible()
    assert (server.count("POST", "/api/sessions"), server.count("GET", "/stream.mjpeg")) == (1, 0)
    server.behaviour.whep = "serve"
    page.click("#notice-retry")
    expect(page.locator("#video")).to_have_js_property("videoWidth", 640)
    expect(page.locator("#notice")).to_be_hidden()
    expect(page.locator("#canvas")).to_be_hidden()


@pytest.mark.parametrize(
    ("script", "video", "why"),
    [
        (NO_WEBCODECS, "serve", "This browser has no WebCodecs"),
        (
            f"{NO_WEBCODECS}; Object.defineProperty(window, 'isSecureContext', {{ value: false }})",
            "serve",
            "WebCodecs needs HTTPS or localhost",
        ),
        ("", "refuse", "WebCodecs could not connect (WebSocket blocked?)"),
        ("", "garbage", "This browser cannot decode the video by WebCodecs"),
    ],
)
def test_mjpeg_is_the_last_choice_and_says_why(
    visit: Opener, server: MockServer, script: str, video: str, why: str
) -> None:
    server.behaviour.transports = ALL
    server.behaviour.video = video
    complaint = "WebSocket connection to" if video == "refuse" else ()
    page = live(visit(script=f"{NO_WEBRTC}; {script}", expected=complaint))
    expect(page.locator("#notice-text")).to_have_text(f"This browser has no WebRTC. {why}: showing MJPEG")
    expect(page.locator("#image")).to_be_visible()
    assert server.count("POST", "/api/sessions") == 1


def test_a_lost_socket_is_opened_again(visit: Opener, server: MockServer) -> None:
    page = live(visit(WEBCODECS, refusals=2))
    server.end_sessions()
    server.wait_for(lambda: server.count("POST", "/api/sessions") == 2, "a new session after the video has ended")
    live(page)
    expect(page.locator("#canvas")).to_be_visible()


def test_webrtc_can_be_tried_again(visit: Opener, server: MockServer) -> None:
    server.behaviour.whep = "refuse"
    page = live(visit(refusals=1))
    expect(page.locator("#notice")).to_be_visible()
    server.behaviour.whep = "serve"
    page.click("#notice-retry")
    expect(page.locator("#notice")).to_be_hidden()
    expect(page.locator("#video")).to_be_visible()
    expect(page.locator("#video")).to_have_js_property("videoWidth", 640)


def test_no_notice_where_the_server_offers_mjpeg_only(visit: Opener, server: MockServer) -> None:
    server.behaviour.transports = ["mjpeg"]
    page = live(visit())
    expect(page.locator("#notice")).to_be_hidden()
    assert server.count("POST", "/whep") == 0


# -- session


def test_loading_is_shown_until_the_model_is_ready(visit: Opener, server: MockServer) -> None:
    server.behaviour.loading_polls = 2
    page = visit()
    expect(page.locator("#overlay")).to_contain_text("Reading weights 3 of 8")
    assert page.evaluate("document.getElementById('overlay-progress').value") == 0.375
    live(page)


def test_a_model_that_cannot_be_loaded_is_shown(visit: Opener, server: MockServer) -> None:
    server.behaviour.load_error = "FileNotFoundError: no weights in /models"
    page = visit()
    expect(page.locator("#overlay")).to_contain_text("FileNotFoundError: no weights in /models")
    assert server.count("POST", "/api/sessions") == 0


def test_a_full_server_is_tried_again(visit: Opener, server: MockServer) -> None:
    server.behaviour.full_answers = 1
    page = visit(refusals=1)
    expect(page.locator("#overlay")).to_contain_text("All places are taken")
    expect(page.locator("#overlay")).to_contain_text(re.compile(r"Trying again in [12] s"))
    live(page)
    assert server.count("POST", "/api/sessions") == 2


def test_the_buttons_call_the_server(visit: Opener, server: MockServer) -> None:
    page = live(visit(MJPEG))
    page.click("#reset")
    server.wait_for(lambda: server.count("POST", "/reset") == 1, "the reset")
    assert server.calls[-1][2] == {"context": {}}
    page.click("#seed")
    server.wait_for(lambda: server.count("POST", "/reset") == 2, "the reset with a seed")
    seed = server.calls[-1][2]["context"]["seed"]
    expect(page.get_by_label("Seed")).to_have_value(str(seed))
    page.click("#pause")
    expect(page.locator("#status")).to_have_text("Paused")
    page.click("#pause")
    expect(page.locator("#status")).to_have_text("Live")
    patches = [body for method, path, body in server.calls if method == "PATCH" and path == "/api/sessions/s1"]
    assert patches == [{"active": False}, {"active": True}]


def test_a_copy_of_the_page_works_as_the_demos_own(visit: Opener, server: MockServer) -> None:
    server.behaviour.page = "/demos/maze/"
    page = live(visit(server.behaviour.page.removeprefix("/") + MJPEG))
    assert server.count("GET", "/api/demo") == 1
    page.keyboard.press("KeyW")
    server.wait_for(lambda: len(server.edges()) == 2, "input of the copy")
    expect(page.locator("#own-page")).to_be_hidden()


def test_the_page_leads_to_the_demos_own(visit: Opener, server: MockServer) -> None:
    server.behaviour.page = "/demos/maze/"
    page = live(visit(MJPEG))
    expect(page.locator("#own-page-link")).to_have_attribute("href", "/demos/maze/")
    expect(page.locator("#own-page")).to_be_visible()


def test_keys_that_are_pressed_while_it_is_paused_are_not_measured(visit: Opener, server: MockServer) -> None:
    page = live(visit(MJPEG))
    page.click("#pause")
    expect(page.locator("#status")).to_have_text("Paused")
    page.keyboard.press("KeyW")
    server.wait_for(lambda: len(server.edges()) == 2, "the press")
    said = len(controls(server))
    server.wait_for(lambda: len(controls(server)) >= said + 4, "two rounds of the numbers")
    assert stat(page, "latency") == "–"


def test_a_lost_connection_comes_back_to_the_same_session(visit: Opener, server: MockServer) -> None:
    page = live(visit())
    server.drop_connections()
    server.wait_for(lambda: server.count("POST", "/whep") == 2, "a second offer")
    live(page)
    assert server.count("POST", "/api/sessions") == 1
    page.keyboard.press("KeyW")
    server.wait_for(lambda: len(server.edges()) == 2, "input over the new connection")


def test_a_session_that_is_gone_is_replaced(visit: Opener, server: MockServer) -> None:
    page = live(visit(MJPEG, refusals=20))
    server.end_sessions()
    server.wait_for(lambda: server.count("POST", "/api/sessions") == 2, "a second session")
    live(page)
    page.keyboard.press("KeyW")
    server.wait_for(lambda: len(server.edges()) == 2, "input of the new session")


def test_a_fatal_failure_ends_the_session_until_the_person_starts_again(visit: Opener, server: MockServer) -> None:
    page = live(visit(MJPEG))
    error = "ValueError: the model gave up"
    server.say({"v": 1, "type": "event", "event": "failed", "epoch": 1, "error": error, "fatal": True})
    expect(page.locator("#overlay")).to_contain_text(error)
    expect(page.locator("#status")).to_have_text("Ended")
    page.click("#overlay-button")
    live(page)
    assert server.count("POST", "/api/sessions") == 2


def test_an_error_of_the_server_is_shown(visit: Opener, server: MockServer) -> None:
    page = live(visit(MJPEG))
    error = {"code": "bad_field", "detail": "should be at most 1", "field": "fog"}
    server.say({"v": 1, "type": "error", "seq": 3, "error": error})
    expect(page.locator(".toast")).to_contain_text("Fog: should be at most 1")
    expect(page.locator("#field-fog-error")).to_have_text("should be at most 1")
    page.locator(".toast button").click()
    expect(page.locator(".toast")).to_have_count(0)


def test_leaving_the_page_gives_the_place_back(visit: Opener, server: MockServer) -> None:
    page = live(visit())
    page.goto("about:blank")
    server.wait_for(lambda: server.count("DELETE", "/api/sessions/s1") == 1, "the place to be given back")


# -- looks


@pytest.mark.parametrize("width", [360, 768, 1280])
def test_nothing_overflows_sideways(visit: Opener, server: MockServer, width: int) -> None:
    server.behaviour.whep = "refuse"
    page = live(visit(refusals=1, viewport={"width": width, "height": 740}))
    expect(page.locator("#notice")).to_be_visible()
    page.click("#stats-toggle")
    expect(page.locator("#details")).to_contain_text("JPEG")
    assert page.evaluate("document.documentElement.scrollWidth") == width


def test_everything_that_can_be_worked_has_a_name(visit: Opener) -> None:
    page = live(visit(MJPEG))
    nameless = page.evaluate(
        """() => [...document.querySelectorAll("button, input, select, textarea")]
            .filter((e) => e.checkVisibility() && !(e.ariaLabel || e.textContent.trim() || e.labels?.length))
            .map((e) => e.outerHTML)"""
    )
    assert nameless == []
