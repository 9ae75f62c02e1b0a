"""The page in a real browser, against the mock server."""

from __future__ import annotations

import re
from typing import Any

import pytest

pytest.importorskip("playwright", reason="the playwright package is not installed: the page is not tested")
pytest.importorskip("aiortc", reason="aiortc is not installed: the page is not tested")

from playwright.sync_api import FilePayload, Page, expect

from .conftest import Opener
from .mock_server import MockServer

PHONE: dict[str, Any] = {"viewport": {"width": 360, "height": 740}, "has_touch": True, "is_mobile": True}
NO_WEBRTC = "delete window.RTCPeerConnection"


MJPEG = "?transport=mjpeg"


def live(page: Page) -> Page:
    expect(page.locator("#status")).to_have_text("Live", timeout=20_000)
    return page


def stat(page: Page, name: str) -> str:
    return page.locator(f'[data-stat="{name}"]').inner_text()


def png(data: bytes) -> FilePayload:
    return {"name": "first.png", "mimeType": "image/png", "buffer": data}


def controls(server: MockServer) -> list[dict[str, Any]]:
    return [message for message in server.messages if message["type"] == "controls"]


# -- picture


def test_the_picture_comes_by_webrtc(visit: Opener, server: MockServer) -> None:
    page = live(visit())
    expect(page.locator("#video")).to_have_js_property("videoWidth", 640)
    expect(page.locator("#image")).to_be_hidden()
    expect(page.locator("#overlay")).to_be_hidden()
    expect(page.locator("#notice")).to_be_hidden()
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


@pytest.mark.parametrize("query", ["", MJPEG])
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
    assert server.count("POST", "/whep") == 0


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


# -- keys, pointer, sticks


def test_keys_arrive_in_the_order_of_pressing(visit: Opener, server: MockServer) -> None:
    page = live(visit())
    page.keyboard.down("KeyW")
    page.keyboard.down("KeyA")
    page.keyboard.up("KeyW")
    page.keyboard.up("KeyA")
    server.wait_for(lambda: len(server.edges()) >= 4, "four edges")
    steps = [(edge["kind"], edge["code"]) for edge in server.edges()]
    assert steps == [("key_down", "KeyW"), ("key_down", "KeyA"), ("key_up", "KeyW"), ("key_up", "KeyA")]
    assert [edge["seq"] for edge in server.edges()] == [0, 1, 2, 3]
    held = [message["keys"] for message in controls(server) if message["edges"]]
    assert held == [["KeyW"], ["KeyW", "KeyA"], ["KeyA"], []]
    numbers = [message["seq"] for message in server.messages]
    assert numbers == sorted(set(numbers))


def test_the_state_is_repeated_while_nothing_changes(visit: Opener, server: MockServer) -> None:
    page = live(visit(MJPEG))
    page.keyboard.down("KeyW")
    server.wait_for(lambda: len(server.edges()) == 1, "the press")
    before = len(controls(server))
    server.wait_for(lambda: len(controls(server)) >= before + 2, "two heartbeats")
    assert all(message["keys"] == ["KeyW"] and not message["edges"] for message in controls(server)[before:])


def test_the_legend_shows_what_is_held(visit: Opener, server: MockServer) -> None:
    page = live(visit(MJPEG))
    page.keyboard.down("ArrowUp")
    expect(page.locator('.key[data-code="KeyW"]')).to_have_attribute("aria-pressed", "true")
    page.keyboard.up("ArrowUp")
    expect(page.locator('.key[data-code="KeyW"]')).to_have_attribute("aria-pressed", "false")
    server.wait_for(lambda: len(server.edges()) == 2, "both edges")
    assert server.edges()[0]["code"] == "ArrowUp", "the server resolves aliases"


def test_the_legend_can_be_pressed(visit: Opener, server: MockServer) -> None:
    page = live(visit(MJPEG))
    page.locator('.key[data-code="Space"]').click()
    server.wait_for(lambda: len(server.edges()) == 2, "both edges")
    assert [(edge["kind"], edge["code"]) for edge in server.edges()] == [("key_down", "Space"), ("key_up", "Space")]


def test_typing_and_shortcuts_are_no_input(visit: Opener, server: MockServer) -> None:
    page = live(visit(MJPEG))
    page.fill("#field-prompt", "")
    page.locator("#field-prompt").press_sequentially("was d")
    page.locator("#stage").focus()
    page.keyboard.press("Control+KeyD")
    page.keyboard.press("KeyQ")
    page.keyboard.press("KeyS")
    server.wait_for(lambda: len(server.edges()) >= 2, "the key that counts")
    assert [edge["code"] for edge in server.edges()] == ["KeyS", "KeyS"]
    assert page.input_value("#field-prompt") == "was d"


def test_losing_the_focus_releases_everything(visit: Opener, server: MockServer) -> None:
    page = live(visit())
    page.keyboard.down("KeyW")
    server.wait_for(lambda: len(server.edges()) == 1, "the press")
    page.evaluate("dispatchEvent(new Event('blur'))")
    server.wait_for(lambda: any(message["type"] == "blur" for message in server.messages), "the blur message")
    blur = next(message for message in server.messages if message["type"] == "blur")
    assert set(blur) == {"v", "type", "seq"}
    server.wait_for(lambda: controls(server)[-1]["seq"] > blur["seq"], "the next state")
    assert controls(server)[-1]["keys"] == []
    expect(page.locator(".key.held")).to_have_count(0)


def test_a_click_locks_the_mouse_and_movement_is_sent(visit: Opener, server: MockServer) -> None:
    page = live(visit(MJPEG))
    expect(page.locator("#hint")).to_be_visible()
    page.mouse.move(300, 300)
    page.mouse.click(300, 300)
    expect(page.locator("#stage")).to_have_class(re.compile(r"\blocked\b"))
    assert server.edges() == [], "the click that locks is not for the demo"
    page.mouse.move(310, 296)
    page.mouse.move(325, 290)
    page.mouse.down()
    page.mouse.up()
    server.wait_for(lambda: any(edge["kind"] == "button_up" for edge in server.edges()), "the second click")
    moves = [edge for edge in server.edges() if edge["kind"] == "pointer_move"]
    assert (sum(move["dx"] for move in moves), sum(move["dy"] for move in moves)) == (25, -10)
    assert [edge["kind"] for edge in server.edges()][-2:] == ["button_down", "button_up"]


def test_where_the_pointer_is_is_sent_when_the_demo_asks_for_that(visit: Opener, server: MockServer) -> None:
    server.behaviour.pointer = "position"
    page = live(visit(MJPEG))
    expect(page.locator("#hint")).to_be_hidden()
    box = page.locator("#stage").bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 4)
    page.mouse.down(button="right")
    page.mouse.up(button="right")
    server.wait_for(lambda: any(edge["kind"] == "button_up" for edge in server.edges()), "the click")
    down = next(m for m in controls(server) if any(edge["kind"] == "button_down" for edge in m["edges"]))
    assert down["pointer"] == {"buttons": 2, "x": pytest.approx(0.5, abs=0.01), "y": pytest.approx(0.25, abs=0.01)}
    assert controls(server)[-1]["pointer"]["buttons"] == 0


def test_keys_steer_again_after_a_click_on_a_control(visit: Opener, server: MockServer) -> None:
    page = live(visit(MJPEG))
    page.click("#stats-toggle")
    page.get_by_role("radio", name="lava").click()
    page.keyboard.press("Space")
    page.keyboard.press("ArrowLeft")
    server.wait_for(lambda: len(server.edges()) == 4, "both keys")
    assert server.fields() == {"theme": "lava"}


def test_the_wheel_is_sent(visit: Opener, server: MockServer) -> None:
    page = live(visit(MJPEG))
    page.mouse.move(300, 300)
    page.mouse.wheel(0, 120)
    server.wait_for(lambda: any(edge["kind"] == "wheel" for edge in server.edges()), "the wheel")
    wheel = next(edge for edge in server.edges() if edge["kind"] == "wheel")
    assert (wheel["dx"], wheel["dy"]) == (0, 120)


def test_a_touch_stick_is_sent_and_comes_back(visit: Opener, server: MockServer) -> None:
    page = live(visit(MJPEG, **PHONE))
    box = page.locator('[data-stick="move"]').bounding_box()
    assert box is not None
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(x, y - box["height"])
    server.wait_for(lambda: controls(server)[-1]["sticks"]["move"] == [0, -1], "the stick pushed forward")
    page.mouse.up()
    server.wait_for(lambda: controls(server)[-1]["sticks"] == {"move": [0, 0], "look": [0, 0]}, "the stick at rest")


def test_a_tap_on_the_picture_is_sent(visit: Opener, server: MockServer) -> None:
    page = live(visit(MJPEG, **PHONE))
    box = page.locator("#stage").bounding_box()
    assert box is not None
    page.touchscreen.tap(box["x"] + box["width"] / 4, box["y"] + box["height"] / 2)
    server.wait_for(lambda: any(edge["kind"] == "tap" for edge in server.edges()), "the tap")
    tap = next(edge for edge in server.edges() if edge["kind"] == "tap")
    assert (tap["x"], tap["y"]) == (pytest.approx(0.25, abs=0.01), pytest.approx(0.5, abs=0.02))


# -- fields


def test_the_form_is_generated_and_its_fields_are_sent(visit: Opener, server: MockServer) -> None:
    page = live(visit(MJPEG))
    titles = page.locator(".field label[for]").all_inner_texts()
    assert titles == ["Prompt", "Theme", "Fog", "Seed", "Moving lights", "First picture"]
    page.get_by_role("radio", name="ice").check()
    page.get_by_label("Moving lights").uncheck()
    page.get_by_label("Fog").fill("0.75")
    page.get_by_label("Seed").fill("42")
    wanted = {"theme": "ice", "sprites": False, "fog": 0.75, "seed": 42}
    server.wait_for(lambda: server.fields() == wanted, "the four fields")


def test_enter_sends_the_prompt_and_keeps_it_one_line(visit: Opener, server: MockServer) -> None:
    page = live(visit(MJPEG))
    prompt = page.get_by_label("Prompt")
    prompt.fill("lava")
    prompt.press("Enter")
    server.wait_for(lambda: server.fields() == {"prompt": "lava"}, "the prompt")
    assert prompt.input_value() == "lava"


def test_a_small_picture_is_sent_as_a_data_url(visit: Opener, server: MockServer) -> None:
    page = live(visit(MJPEG))
    page.set_input_files("#field-picture", files=[png(b"\x89PNG dot")])
    server.wait_for(lambda: "picture" in server.fields(), "the picture")
    assert server.fields()["picture"].startswith("data:image/png;base64,")


def test_a_large_picture_waits_for_the_reset(visit: Opener, server: MockServer) -> None:
    page = live(visit(MJPEG))
    page.set_input_files("#field-picture", files=[png(bytes(60_000))])
    expect(page.locator(".toast")).to_contain_text("First picture takes effect with the next reset.")
    page.click("#reset")
    server.wait_for(lambda: server.count("POST", "/reset") == 1, "the reset")
    context = server.calls[-1][2]["context"]
    assert len(context["picture"]) > 80_000
    assert context["theme"] == "stone"
    assert server.fields() == {}


def test_a_required_field_is_asked_for_before_the_start(visit: Opener, server: MockServer) -> None:
    server.behaviour.required_context = ["picture"]
    page = visit()
    expect(page.locator("#overlay")).to_contain_text("This demo needs: First picture.")
    page.click("#overlay-button")
    expect(page.locator("#field-picture-error")).to_have_text("This is needed to start.")
    assert server.count("POST", "/api/sessions") == 0
    page.set_input_files("#field-picture", files=[png(b"\x89PNG")])
    page.click("#overlay-button")
    live(page)
    context = server.created[0]
    assert context["picture"].startswith("data:image/png;base64,")
    assert context["seed"] == 7


def test_enter_in_the_prompt_starts(visit: Opener, server: MockServer) -> None:
    server.behaviour.required_context = ["prompt"]
    server.behaviour.fields = {"properties": {"prompt": {"type": "string", "default": ""}}}
    page = visit(MJPEG)
    page.get_by_label("Prompt").fill("a harbour at night")
    page.get_by_label("Prompt").press("Enter")
    live(page)
    assert server.created[0] == {"prompt": "a harbour at night"}


def test_a_refused_field_is_shown_at_the_field(visit: Opener, server: MockServer) -> None:
    server.behaviour.refused_field = "prompt"
    page = visit(refusals=1)
    expect(page.locator("#field-prompt-error")).to_have_text("must be a place that exists")
    expect(page.locator("#field-prompt")).to_be_focused()
    page.click("#overlay-button")
    live(page)
    expect(page.locator("#field-prompt-error")).to_be_hidden()


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


def test_every_message_is_of_the_published_protocol(visit: Opener, server: MockServer) -> None:
    published = pytest.importorskip("realtime_engine.infra.controls.parsing", reason="the controls are not installed")
    page = live(visit())
    page.keyboard.press("KeyW")
    page.mouse.move(300, 300)
    page.mouse.wheel(3, 120)
    page.get_by_label("Seed").fill("42")
    page.evaluate("dispatchEvent(new Event('blur'))")
    server.wait_for(lambda: {m["type"] for m in server.messages} == {"controls", "blur", "ping"}, "each type")
    for message in list(server.messages):
        published.parse_message(message)
