"""The page in a real browser, against the mock server: video, session, statistics and layout."""

from __future__ import annotations

import re
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from .conftest import Opener
from .mock_server import MockServer
from .steps import MJPEG, WEBCODECS, controls, live, stat

NO_WEBRTC = "delete window.RTCPeerConnection"
NO_WEBCODECS = "delete window.VideoDecoder"
NO_PORT = "WebRTC could not connect (No UDP port is free)"
NO_WEBSOCKET = "WebSocket connection to"
ALL = ["webrtc", "webcodecs", "mjpeg"]
# Some browsers split a multipart stream themselves: a page that reads it receives the first image only.
FIRST_PART_ONLY = """
    const fetched = window.fetch;
    window.fetch = (url, options) =>
        String(url).includes(".mjpeg")
            ? Promise.resolve(new Response("an image", { headers: { "Content-Type": "image/jpeg" } }))
            : fetched(url, options);
"""


# -- video

HIDE = """() => {
  window.waiting = [];
  window.requestAnimationFrame = (callback) => window.waiting.push(callback);
}"""


@pytest.mark.parametrize("query", [MJPEG, WEBCODECS])
def test_a_hidden_page_queues_no_callbacks_and_sends_no_burst(visit: Opener, server: MockServer, query: str) -> None:
    server.behavior.transports = ALL
    page = live(visit(query))
    page.evaluate(HIDE)
    sent = server.frames_sent
    server.wait_for(lambda: server.frames_sent >= sent + 60, "60 frames")
    assert page.evaluate("window.waiting.length") <= 2, "one of the viewer and one of the controls"
    before = len(reports(server))
    page.evaluate("for (const callback of window.waiting.splice(0)) callback(performance.now())")
    server.wait_for(lambda: len(reports(server)) > before, "a report")
    assert len(reports(server)[before:]) == 1


def reports(server: MockServer) -> list[Any]:
    return [message for message in server.messages if message["type"] == "presented"]


def test_video_over_webrtc(visit: Opener, server: MockServer) -> None:
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


def test_video_over_mjpeg_if_the_address_selects_it(visit: Opener, server: MockServer) -> None:
    page = live(visit(MJPEG))
    expect(page.locator("#image")).to_be_visible()
    expect(page.locator("#video")).to_be_hidden()
    expect(page.locator('[data-stat="resolution"]')).to_have_text("640×360")
    assert stat(page, "transport") == "MJPEG"
    server.wait_for(lambda: server.acknowledged > 5, "acknowledgements")
    page.click("#stats-toggle")
    expect(page.locator("#details")).to_contain_text("JPEG")
    assert (server.count("POST", "/whep"), server.count("GET", "/stream.mjpeg")) == (0, 0)


def test_more_pages_show_mjpeg_than_a_browser_opens_connections_to_a_server(visit: Opener, server: MockServer) -> None:
    first = live(visit(MJPEG))
    pages = [first]
    for _ in range(7):
        pages.append(first.context.new_page())
        pages[-1].goto(server.url + MJPEG)
    for page in pages:
        expect(live(page).locator("#image")).to_have_js_property("naturalWidth", 640)
    for page in pages:
        page.click("#reset")
    server.wait_for(lambda: server.count("POST", "/reset") == len(pages), "the reset of each page")


@pytest.mark.parametrize("jpegs", ["refuse", "silent"])
def test_mjpeg_is_a_stream_where_no_websocket_brings_pictures(visit: Opener, server: MockServer, jpegs: str) -> None:
    server.behavior.jpegs = jpegs
    page = live(visit(MJPEG, expected=NO_WEBSOCKET))
    expect(page.locator("#image")).to_have_js_property("naturalWidth", 640)
    expect(page.locator('[data-stat="fps"]')).to_have_text(re.compile(r"^\d+ fps$"))
    assert server.count("GET", "/stream.mjpeg") == 1


def test_lost_mjpeg_is_received_again(visit: Opener, server: MockServer) -> None:
    page = live(visit(MJPEG, failures=2))
    server.end_sessions()
    server.wait_for(lambda: server.count("POST", "/api/sessions") == 2, "a new session after the video has ended")
    live(page)


def test_video_over_webcodecs_if_the_address_selects_it(visit: Opener, server: MockServer) -> None:
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
    assert page.evaluate(brightness) > 100, "the brightness of the synthetic frames"
    assert server.count("POST", "/whep") == 0


def test_a_browser_that_splits_the_stream_shows_it_without_statistics(visit: Opener, server: MockServer) -> None:
    server.behavior.jpegs = "refuse"
    page = live(visit(MJPEG, script=FIRST_PART_ONLY, failures=20, expected=NO_WEBSOCKET))
    expect(page.locator("#image")).to_have_js_property("naturalWidth", 640)
    assert server.count("GET", "/stream.mjpeg") == 1
    expect(page.locator('[data-stat="resolution"]')).to_have_text("640×360")
    assert stat(page, "fps") == "–", "frames are not counted"
    server.end_sessions()
    server.wait_for(lambda: server.count("POST", "/api/sessions") == 2, "a new session after the stream has ended")
    live(page)


@pytest.mark.parametrize("query", ["", WEBCODECS, MJPEG])
def test_key_to_pixel_is_measured(visit: Opener, query: str) -> None:
    page = live(visit(query))
    page.keyboard.press("KeyW")
    page.keyboard.press("KeyD")
    expect(page.locator('[data-stat="latency"]')).to_have_text(re.compile(r"^\d+ ms$"))


def test_the_statistics_panel_is_shown_on_demand(visit: Opener) -> None:
    page = live(visit())
    expect(page.locator("#details")).to_be_hidden()
    page.click("#stats-toggle")
    expect(page.locator("#details")).to_contain_text("VP8")
    expect(page.locator("#details dl")).not_to_contain_text("Key to pixel")
    page.keyboard.press("KeyW")
    expect(page.locator("#details dl")).to_contain_text("Key to pixel")


def test_key_to_pixel_is_hidden_for_a_demo_without_keys(visit: Opener, server: MockServer) -> None:
    expect(live(visit()).locator("#key-to-pixel")).to_be_visible()
    server.behavior.keys = []
    expect(live(visit()).locator("#key-to-pixel")).to_be_hidden()


def test_the_statistics_are_beside_the_buttons(visit: Opener) -> None:
    page = live(visit(WEBCODECS))
    page.set_viewport_size({"width": 1280, "height": 800})
    page.keyboard.press("KeyW")
    expect(page.locator('[data-stat="latency"]')).to_have_text(re.compile(r"^\d+ ms$"))
    page.click("#stats-toggle")
    expect(page.locator("#trace")).to_be_visible()
    page.click("#pause")
    expect(page.locator("#pause")).to_have_text("Resume")
    bar, trace, statistics = (page.locator(name).bounding_box() for name in (".bar", "#trace", "#stats"))
    assert bar and trace and statistics
    assert bar["y"] <= statistics["y"] < trace["y"] + trace["height"]


def test_statistics_of_the_stages_are_shown(visit: Opener, server: MockServer) -> None:
    page = live(visit(MJPEG))
    page.click("#stats-toggle")
    expect(page.locator("#details")).to_contain_text("JPEG")
    expect(page.locator("#timing")).to_be_hidden()
    expect(page.locator("#pipeline")).to_be_hidden()
    stages = [{"stage": "encode", "count": 3, "p50": 1.44, "p95": 2.2, "p99": 3.1}]
    pipeline = [
        {"stage": "condition", "values": {"queue_depth": 2, "service_p50_ms": 4.26, "idle": "no input"}},
        {"stage": "decode", "values": {"queue_depth": None, "service_p50_ms": 12.0, "real_time_factor": 1.53}},
    ]
    server.send({"v": 1, "type": "timing", "transport": "mjpeg", "stages": stages, "pipeline": pipeline})
    expect(page.locator("#timing tbody")).to_have_text("Encoding1.42.2")
    expect(page.locator("#pipeline thead th")).to_have_text(["Stage of the model", "condition", "decode"])
    expect(page.locator("#pipeline tbody tr")).to_have_text(
        ["Queue depth2–", "Service p50, ms4.312", "Idleno input–", "Real time factor–1.5"]
    )


# -- fallback


def test_a_rejected_offer_falls_back_with_the_reason(visit: Opener, server: MockServer) -> None:
    server.behavior.whep = "refuse"
    page = live(visit(failures=1))
    expect(page.locator("#notice")).to_contain_text(
        "WebRTC could not connect (No UDP port is free). Using MJPEG instead."
    )
    expect(page.locator("#image")).to_be_visible()
    assert server.count("POST", "/api/sessions") == 1, "the session stays the same"


def test_blocked_udp_falls_back_with_the_reason(visit: Opener, server: MockServer) -> None:
    server.behavior.whep = "silent"
    page = live(visit())
    expect(page.locator("#notice")).to_contain_text("WebRTC could not connect (UDP blocked?). Using MJPEG instead.")
    server.wait_for(lambda: server.count("DELETE", "/whep/1") == 1, "the page to close the connection")


def test_a_browser_without_webrtc_falls_back_with_the_reason(visit: Opener, server: MockServer) -> None:
    page = live(visit(script=NO_WEBRTC))
    expect(page.locator("#notice")).to_contain_text("This browser does not support WebRTC. Using MJPEG instead.")
    expect(page.locator("#notice-retry")).to_be_hidden()
    assert server.count("POST", "/whep") == 0


def test_webcodecs_is_the_second_choice(visit: Opener, server: MockServer) -> None:
    server.behavior.transports = ALL
    server.behavior.whep = "refuse"
    page = live(visit(failures=1))
    expect(page.locator("#notice")).to_contain_text(
        "WebRTC could not connect (No UDP port is free). Using WebCodecs instead."
    )
    expect(page.locator("#canvas")).to_be_visible()
    assert (server.count("POST", "/api/sessions"), server.count("GET", "/stream.mjpeg")) == (1, 0)
    server.behavior.whep = "serve"
    page.click("#notice-retry")
    expect(page.locator("#video")).to_have_js_property("videoWidth", 640)
    expect(page.locator("#notice")).to_be_hidden()
    expect(page.locator("#canvas")).to_be_hidden()


@pytest.mark.parametrize(
    ("script", "video", "reason"),
    [
        (NO_WEBCODECS, "serve", "This browser does not support WebCodecs"),
        (
            f"{NO_WEBCODECS}; Object.defineProperty(window, 'isSecureContext', {{ value: false }})",
            "serve",
            "WebCodecs requires HTTPS or localhost",
        ),
        ("", "refuse", "WebCodecs could not connect (WebSocket blocked?)"),
        ("", "garbage", "This browser cannot decode the video with WebCodecs"),
    ],
)
def test_mjpeg_is_the_last_choice(visit: Opener, server: MockServer, script: str, video: str, reason: str) -> None:
    server.behavior.transports = ALL
    server.behavior.video = video
    expected = "WebSocket connection to" if video == "refuse" else ()
    page = live(visit(script=f"{NO_WEBRTC}; {script}", expected=expected))
    expect(page.locator("#notice-text")).to_have_text(
        f"This browser does not support WebRTC. {reason}. Using MJPEG instead."
    )
    expect(page.locator("#image")).to_be_visible()
    assert server.count("POST", "/api/sessions") == 1


def test_a_lost_video_socket_is_reopened(visit: Opener, server: MockServer) -> None:
    page = live(visit(WEBCODECS, failures=2))
    server.end_sessions()
    server.wait_for(lambda: server.count("POST", "/api/sessions") == 2, "a new session after the video has ended")
    live(page)
    expect(page.locator("#canvas")).to_be_visible()


def test_webrtc_can_be_retried(visit: Opener, server: MockServer) -> None:
    server.behavior.whep = "refuse"
    page = live(visit(failures=1))
    expect(page.locator("#notice")).to_be_visible()
    server.behavior.whep = "serve"
    page.click("#notice-retry")
    expect(page.locator("#notice")).to_be_hidden()
    expect(page.locator("#video")).to_be_visible()
    expect(page.locator("#video")).to_have_js_property("videoWidth", 640)


def test_no_notice_if_the_server_offers_mjpeg_only(visit: Opener, server: MockServer) -> None:
    server.behavior.transports = ["mjpeg"]
    page = live(visit())
    expect(page.locator("#notice")).to_be_hidden()
    assert server.count("POST", "/whep") == 0


# -- session


def test_loading_progress_is_shown_until_the_model_is_ready(visit: Opener, server: MockServer) -> None:
    server.behavior.loading_polls = 2
    page = visit()
    expect(page.locator("#overlay")).to_contain_text("Reading weights 3 of 8")
    assert page.evaluate("document.getElementById('overlay-progress').value") == 0.375
    live(page)


def test_a_model_that_fails_to_load_is_reported(visit: Opener, server: MockServer) -> None:
    server.behavior.load_error = "FileNotFoundError: no weights in /models"
    page = visit()
    expect(page.locator("#overlay")).to_contain_text("FileNotFoundError: no weights in /models")
    assert server.count("POST", "/api/sessions") == 0


def test_a_busy_server_is_retried(visit: Opener, server: MockServer) -> None:
    server.behavior.busy_responses = 1
    page = visit(failures=1)
    expect(page.locator("#overlay")).to_contain_text("All 4 sessions are in use")
    expect(page.locator("#overlay")).to_contain_text(re.compile(r"Retrying in [12] s"))
    live(page)
    assert server.count("POST", "/api/sessions") == 2


@pytest.mark.parametrize(
    ("kind", "detail", "title", "status"),
    [
        ("loading", "The model is loading: Compiling.", "The model is loading", "Loading"),
        ("stalled", "The current model step has not finished.", "The model is not responding", "Stalled"),
        ("full", "All 4 sessions are in use, and 9 clients wait for one.", "All sessions are in use", "Waiting"),
        ("closing", "The server is shutting down.", "The server is shutting down", "Restarting"),
        ("engine-failed", "RuntimeError: out of memory", "The model has failed", "Failed"),
    ],
)
def test_each_reason_for_no_session_has_its_own_text(
    visit: Opener, server: MockServer, kind: str, detail: str, title: str, status: str
) -> None:
    server.behavior.busy_responses, server.behavior.unavailable = 1, (kind, detail)
    page = visit(MJPEG, failures=1)
    expect(page.locator("#overlay-title")).to_have_text(title)
    expect(page.locator("#overlay-text")).to_contain_text("Retrying")
    expect(page.locator("#status")).to_have_text(status)
    if detail != f"{title}.":
        expect(page.locator("#overlay-text")).to_contain_text(detail)
    live(page)


def test_a_refusal_that_names_no_field_is_shown(visit: Opener, server: MockServer) -> None:
    server.behavior.rejected_field = ""
    page = visit(failures=1)
    expect(page.locator("#overlay-text")).to_have_text("must be the name of a theme")


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


def test_a_copy_of_the_page_works_as_a_custom_page(visit: Opener, server: MockServer) -> None:
    server.behavior.page = "demos/maze/"
    page = live(visit(server.behavior.page + MJPEG))
    assert server.count("GET", "/api/demo") == 1
    page.keyboard.press("KeyW")
    server.wait_for(lambda: len(server.edges()) == 2, "input of the copy")
    expect(page.locator("#custom-page")).to_be_hidden()


def test_the_page_links_to_the_custom_page(visit: Opener, server: MockServer) -> None:
    server.behavior.page = "demos/maze/"
    page = live(visit(MJPEG))
    expect(page.locator("#custom-page-link")).to_have_attribute("href", re.compile("^http.*/demos/maze/$"))
    expect(page.locator("#custom-page")).to_be_visible()


def test_keys_pressed_during_a_pause_are_not_measured(visit: Opener, server: MockServer) -> None:
    page = live(visit(MJPEG))
    page.click("#pause")
    expect(page.locator("#status")).to_have_text("Paused")
    page.keyboard.press("KeyW")
    server.wait_for(lambda: len(server.edges()) == 2, "the press")
    before = len(controls(server))
    server.wait_for(lambda: len(controls(server)) >= before + 4, "two updates of the statistics")
    assert stat(page, "latency") == "–"


def test_a_lost_connection_reconnects_to_the_same_session(visit: Opener, server: MockServer) -> None:
    page = live(visit())
    server.drop_connections()
    server.wait_for(lambda: server.count("POST", "/whep") == 2, "a second offer")
    live(page)
    assert server.count("POST", "/api/sessions") == 1
    page.keyboard.press("KeyW")
    server.wait_for(lambda: len(server.edges()) == 2, "input over the new connection")


def test_an_ended_session_is_replaced(visit: Opener, server: MockServer) -> None:
    page = live(visit(MJPEG, failures=20))
    server.end_sessions()
    server.wait_for(lambda: server.count("POST", "/api/sessions") == 2, "a second session")
    live(page)
    page.keyboard.press("KeyW")
    server.wait_for(lambda: len(server.edges()) == 2, "input of the new session")


def test_a_fatal_failure_ends_the_session_until_the_user_restarts(visit: Opener, server: MockServer) -> None:
    page = live(visit(MJPEG))
    error = "ValueError: the model failed"
    server.send({"v": 1, "type": "event", "event": "failed", "epoch": 1, "error": error, "fatal": True})
    expect(page.locator("#overlay")).to_contain_text(error)
    expect(page.locator("#status")).to_have_text("Ended")
    page.click("#overlay-button")
    live(page)
    assert server.count("POST", "/api/sessions") == 2


def finish(page: Page, server: MockServer, epoch: int) -> None:
    server.send({"v": 1, "type": "event", "event": "finished", "epoch": epoch})
    expect(page.locator("#overlay")).to_contain_text("The rollout has ended.")
    expect(page.locator("#status")).to_have_text("Finished")
    expect(page.locator("#pause")).to_be_disabled()


def test_a_finished_rollout_can_be_started_again_in_the_same_session(visit: Opener, server: MockServer) -> None:
    page = live(visit(MJPEG))
    finish(page, server, epoch=1)
    page.get_by_role("radio", name="lava").click()
    server.wait_for(lambda: server.fields() == {"theme": "lava"}, "the theme")
    page.get_by_role("button", name="Start again").click()
    server.wait_for(lambda: server.count("POST", "/reset") == 1, "the reset")
    assert server.calls[-1][2]["context"]["theme"] == "lava"
    live(page)
    expect(page.locator("#overlay")).to_be_hidden()
    expect(page.locator("#pause")).to_be_enabled()
    assert server.count("POST", "/api/sessions") == 1


def test_a_reset_by_another_client_starts_a_finished_rollout_again(visit: Opener, server: MockServer) -> None:
    page = live(visit(MJPEG))
    finish(page, server, epoch=1)
    server.send({"v": 1, "type": "event", "event": "reset_done", "epoch": 2})
    live(page)
    server.send({"v": 1, "type": "event", "event": "finished", "epoch": 1})
    server.send({"v": 1, "type": "event", "event": "active_changed", "epoch": 2, "active": False})
    expect(page.locator("#status")).to_have_text("Paused")
    expect(page.locator("#overlay")).to_be_hidden()


def test_a_finished_rollout_stays_finished_after_a_reconnection(visit: Opener, server: MockServer) -> None:
    page = live(visit())
    finish(page, server, epoch=1)
    server.drop_connections()
    server.wait_for(lambda: server.count("POST", "/whep") == 2, "a second offer")
    expect(page.locator("#status")).to_have_text("Finished", timeout=20_000)
    expect(page.locator("#overlay-button")).to_have_text("Start again")


def test_a_rejected_message_is_reported(visit: Opener, server: MockServer) -> None:
    page = live(visit(MJPEG))
    error = {"code": "bad_field", "detail": "should be at most 1", "field": "fog"}
    server.send({"v": 1, "type": "error", "seq": 3, "error": error})
    expect(page.locator(".toast")).to_contain_text("Fog: should be at most 1")
    expect(page.locator("#field-fog-error")).to_have_text("should be at most 1")
    page.locator(".toast button").click()
    expect(page.locator(".toast")).to_have_count(0)


def test_leaving_the_page_is_reported(visit: Opener, server: MockServer) -> None:
    page = live(visit())
    page.goto("about:blank")
    server.wait_for(lambda: server.count("POST", "/api/sessions/s1/leave") == 1, "the report")


def test_a_reloaded_page_returns_to_its_session(visit: Opener, server: MockServer) -> None:
    page = live(visit(MJPEG))
    for _ in range(3):
        page.reload()
        live(page)
    assert server.count("POST", "/api/sessions") == 1


# -- layout


@pytest.mark.parametrize("width", [360, 768, 1280])
def test_nothing_overflows_horizontally(visit: Opener, server: MockServer, width: int) -> None:
    server.behavior.whep = "refuse"
    page = live(visit(failures=1, viewport={"width": width, "height": 740}))
    expect(page.locator("#notice")).to_be_visible()
    page.click("#stats-toggle")
    expect(page.locator("#details")).to_contain_text("JPEG")
    assert page.evaluate("document.documentElement.scrollWidth") == width


def test_every_control_has_a_name(visit: Opener) -> None:
    page = live(visit(MJPEG))
    unnamed = page.evaluate(
        """() => [...document.querySelectorAll("button, input, select, textarea")]
            .filter((e) => e.checkVisibility() && !(e.ariaLabel || e.textContent.trim() || e.labels?.length))
            .map((e) => e.outerHTML)"""
    )
    assert unnamed == []


WRONG_SHAPE = "ValueError: output of shape (4, 4) and dtype uint8 does not fit: expected 4 axes for layout 'thwc'"


def fail(server: MockServer, error: str = WRONG_SHAPE) -> None:
    server.send({"v": 1, "type": "event", "event": "failed", "epoch": 1, "error": error, "fatal": False})


def test_a_model_that_makes_no_picture_is_named_until_one_arrives(visit: Opener, server: MockServer) -> None:
    server.behavior.shows_frames = False
    page = visit(MJPEG)
    fail(server)
    expect(page.locator("#overlay-title")).to_have_text("The model has failed")
    expect(page.locator("#overlay-text")).to_contain_text(WRONG_SHAPE)
    expect(page.locator(".toast")).to_have_count(0)
    server.behavior.shows_frames = True
    live(page)
    expect(page.locator("#overlay")).to_be_hidden()


def test_a_model_that_stops_to_make_pictures_is_named_until_the_next_one(visit: Opener, server: MockServer) -> None:
    page = live(visit(MJPEG))
    fail(server, "ValueError: passing")
    expect(page.locator(".toast")).to_contain_text("passing")
    page.locator(".toast button").click()
    server.behavior.shows_frames = False
    fail(server)
    expect(page.locator("#overlay-text")).to_contain_text(WRONG_SHAPE)
    expect(page.locator("#status")).to_have_text("Live")
    server.behavior.shows_frames = True
    expect(page.locator("#overlay")).to_be_hidden()
