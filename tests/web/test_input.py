"""The page in a real browser, against the mock server: keys, pointer, sticks and fields."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from .conftest import Opener
from .mock_server import MockServer
from .steps import MJPEG, PHONE, controls, live, png

# -- keys, pointer, sticks


def test_keys_are_sent_in_the_order_of_pressing(visit: Opener, server: MockServer) -> None:
    page = live(visit())
    page.keyboard.down("KeyW")
    page.keyboard.down("KeyA")
    page.keyboard.up("KeyW")
    page.keyboard.up("KeyA")
    server.wait_for(lambda: len(server.edges()) >= 4, "four edges")
    steps = [(edge["kind"], edge["code"]) for edge in server.edges()]
    assert steps == [("key_down", "KeyW"), ("key_down", "KeyA"), ("key_up", "KeyW"), ("key_up", "KeyA")]
    first = server.edges()[0]["seq"]
    assert [edge["seq"] - first for edge in server.edges()] == [0, 1, 2, 3]
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


def test_the_legend_shows_held_keys(visit: Opener, server: MockServer) -> None:
    page = live(visit(MJPEG))
    page.keyboard.down("ArrowUp")
    expect(page.locator('.key[data-code="KeyW"]')).to_have_attribute("aria-pressed", "true")
    page.keyboard.up("ArrowUp")
    expect(page.locator('.key[data-code="KeyW"]')).to_have_attribute("aria-pressed", "false")
    server.wait_for(lambda: len(server.edges()) == 2, "both edges")
    assert server.edges()[0]["code"] == "ArrowUp", "the server resolves aliases"


def test_the_keys_of_the_legend_are_buttons(visit: Opener, server: MockServer) -> None:
    page = live(visit(MJPEG))
    page.locator('.key[data-code="Space"]').click()
    server.wait_for(lambda: len(server.edges()) == 2, "both edges")
    assert [(edge["kind"], edge["code"]) for edge in server.edges()] == [("key_down", "Space"), ("key_up", "Space")]


def test_typing_and_shortcuts_are_not_sent(visit: Opener, server: MockServer) -> None:
    page = live(visit(MJPEG))
    page.fill("#field-prompt", "")
    page.locator("#field-prompt").press_sequentially("was d")
    page.locator("#stage").focus()
    page.keyboard.press("Control+KeyD")
    page.keyboard.press("KeyQ")
    page.keyboard.press("KeyS")
    server.wait_for(lambda: len(server.edges()) >= 2, "the key of the demo")
    assert [edge["code"] for edge in server.edges()] == ["KeyS", "KeyS"]
    assert page.input_value("#field-prompt") == "was d"


def test_a_modifier_of_the_demo_is_a_key_like_any_other(visit: Opener, server: MockServer) -> None:
    codes = ("ControlLeft", "AltLeft", "KeyW")
    server.behavior.keys = [{"code": code, "label": code, "group": "move"} for code in codes]
    page = live(visit(MJPEG))
    page.evaluate("addEventListener('keydown', (event) => { window.prevented = event.defaultPrevented; })")
    for code in codes:
        page.keyboard.down(code)
        assert page.evaluate("window.prevented")
    server.wait_for(lambda: controls(server)[-1]["keys"] == list(codes), "all three keys")
    page.keyboard.down("KeyC")
    assert not page.evaluate("window.prevented"), "Control+Alt+C belongs to the browser"
    for code in codes:
        page.keyboard.up(code)
    server.wait_for(lambda: controls(server)[-1]["keys"] == [], "no key")


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
    assert server.edges() == [], "the click that locks the pointer is not sent"
    page.mouse.move(310, 296)
    page.mouse.move(325, 290)
    page.mouse.down()
    page.mouse.up()
    server.wait_for(lambda: any(edge["kind"] == "button_up" for edge in server.edges()), "the second click")
    moves = [edge for edge in server.edges() if edge["kind"] == "pointer_move"]
    assert (sum(move["dx"] for move in moves), sum(move["dy"] for move in moves)) == (25, -10)
    assert [edge["kind"] for edge in server.edges()][-2:] == ["button_down", "button_up"]


def test_the_pointer_position_is_sent_if_the_demo_reads_it(visit: Opener, server: MockServer) -> None:
    server.behavior.pointer = "position"
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


def test_a_demo_without_a_picture_size_gets_positions_from_its_first_frame_on(
    visit: Opener, server: MockServer
) -> None:
    server.behavior.pointer = "position"
    server.behavior.sized = server.behavior.shows_frames = False
    page = visit(MJPEG)
    server.wait_for(lambda: bool(controls(server)), "the first state")
    box = page.locator("#stage").bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + box["width"] / 4, box["y"] + box["height"] / 4)
    page.keyboard.press("KeyW")
    server.wait_for(lambda: len(server.edges()) >= 2, "the key")
    assert all(message["pointer"] == {"buttons": 0, "x": 0.5, "y": 0.5} for message in controls(server))
    server.behavior.shows_frames = True
    live(page)
    box = page.locator("#stage").bounding_box()
    assert box is not None and box["width"] / box["height"] == pytest.approx(640 / 360, rel=0.01)
    page.mouse.move(box["x"] + box["width"] / 4, box["y"] + box["height"] * 3 / 4)
    at = {"buttons": 0, "x": pytest.approx(0.25, abs=0.01), "y": pytest.approx(0.75, abs=0.01)}
    server.wait_for(lambda: controls(server)[-1]["pointer"] == at, "the position")


ERASER = """([kind, buttons]) => {
    const event = { pointerType: "pen", pointerId: 1, bubbles: true, button: 5, buttons };
    document.getElementById("stage").dispatchEvent(new PointerEvent(kind, event));
}"""


def test_a_button_that_the_protocol_does_not_know_is_not_sent(visit: Opener, server: MockServer) -> None:
    server.behavior.pointer = "position"
    page = live(visit(MJPEG))
    for kind, buttons in (("pointerdown", 33), ("pointerup", 0)):
        page.evaluate(ERASER, [kind, buttons])
    page.keyboard.press("KeyW")
    server.wait_for(lambda: len(server.edges()) >= 2, "the key")
    assert {edge["kind"] for edge in server.edges()} == {"key_down", "key_up"}
    assert all(message["pointer"]["buttons"] in (0, 1) for message in controls(server))


def test_keys_are_sent_after_a_click_on_a_control(visit: Opener, server: MockServer) -> None:
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


def test_a_touch_stick_is_sent_and_returns_to_the_center(visit: Opener, server: MockServer) -> None:
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


def test_a_tap_on_the_video_is_sent(visit: Opener, server: MockServer) -> None:
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
    assert titles == ["Prompt", "Theme", "Fog", "Seed", "Moving lights", "First frame"]
    page.get_by_role("radio", name="ice").check()
    page.get_by_label("Moving lights").uncheck()
    page.get_by_label("Fog").fill("0.75")
    page.get_by_label("Seed").fill("42")
    wanted = {"theme": "ice", "sprites": False, "fog": 0.75, "seed": 42}
    server.wait_for(lambda: server.fields() == wanted, "the four fields")


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ("-1", "Value must be greater than or equal to 0."),
        ("2147483648", "Value must be less than or equal to 2147483647."),
        ("1.5", "Please enter a valid value."),
        ("", "Please fill out this field."),
    ],
)
def test_an_invalid_number_is_reported_and_not_sent(
    visit: Opener, server: MockServer, entry: str, message: str
) -> None:
    page = live(visit(MJPEG))
    seed = page.get_by_label("Seed")
    seed.fill(entry)
    expect(page.locator("#field-seed-error")).to_contain_text(message)
    seed.fill("42")
    expect(page.locator("#field-seed-error")).to_be_hidden()
    server.wait_for(lambda: "seed" in server.fields(), "the valid number")
    sent = [message["fields"]["seed"] for message in controls(server) if "seed" in message["fields"]]
    assert sent == [42]


def test_an_optional_number_can_be_cleared(visit: Opener, server: MockServer) -> None:
    number = {"anyOf": [{"type": "integer", "minimum": 0}, {"type": "null"}], "default": None, "title": "Seed"}
    server.behavior.fields = {"properties": {"seed": number}}
    page = live(visit(MJPEG))
    page.get_by_label("Seed").fill("3")
    server.wait_for(lambda: server.fields() == {"seed": 3}, "the number")
    page.get_by_label("Seed").fill("")
    server.wait_for(lambda: server.fields() == {"seed": None}, "no value")


def test_enter_sends_the_prompt_without_a_line_break(visit: Opener, server: MockServer) -> None:
    page = live(visit(MJPEG))
    prompt = page.get_by_label("Prompt")
    prompt.fill("lava")
    prompt.press("Enter")
    server.wait_for(lambda: server.fields() == {"prompt": "lava"}, "the prompt")
    assert prompt.input_value() == "lava"


@pytest.mark.parametrize("query", ["", MJPEG])
def test_a_long_text_is_sent_beside_the_keys_and_again_after_a_reconnection(
    visit: Opener, server: MockServer, query: str
) -> None:
    fields = {"type": "object", "properties": {name: {"type": "string", "default": ""} for name in ("story", "plot")}}
    server.behavior.fields = fields
    long = '"' * 40_000
    page = live(visit(query))
    page.get_by_label("Story").fill(long)
    page.get_by_label("Plot").fill(long)
    server.wait_for(lambda: server.fields() == {"story": long, "plot": long}, "both texts")
    before = len(server.messages)
    server.drop_controls()
    server.wait_for(lambda: sent_fields(server, before) >= {"story", "plot"}, "both texts again")
    assert not [message for message in controls(server) if message["fields"] and "keys" in message]
    page.locator("#stage").focus()
    page.keyboard.press("KeyW")
    server.wait_for(lambda: len(server.edges()) == 2, "the key")


def sent_fields(server: MockServer, start: int) -> set[str]:
    return {name for message in server.messages[start:] for name in message.get("fields", ())}


def test_a_small_image_is_sent_as_a_data_url(visit: Opener, server: MockServer) -> None:
    page = live(visit(MJPEG))
    page.set_input_files("#field-image", files=[png(b"\x89PNG dot")])
    server.wait_for(lambda: "image" in server.fields(), "the image")
    assert server.fields()["image"].startswith("data:image/png;base64,")


def test_a_large_image_takes_effect_at_the_reset(visit: Opener, server: MockServer) -> None:
    page = live(visit(MJPEG))
    page.set_input_files("#field-image", files=[png(bytes(600_000))])
    expect(page.locator(".toast")).to_contain_text("First frame takes effect at the next reset.")
    page.click("#reset")
    server.wait_for(lambda: server.count("POST", "/reset") == 1, "the reset")
    context = server.calls[-1][2]["context"]
    assert len(context["image"]) > 800_000
    assert context["theme"] == "stone"
    assert server.fields() == {}


def test_required_fields_must_be_filled_before_the_start(visit: Opener, server: MockServer) -> None:
    server.behavior.required_context = ["image"]
    page = visit()
    expect(page.locator("#overlay")).to_contain_text("Required: First frame.")
    page.click("#overlay-button")
    expect(page.locator("#field-image-error")).to_have_text("This field is required.")
    assert server.count("POST", "/api/sessions") == 0
    page.set_input_files("#field-image", files=[png(b"\x89PNG")])
    page.click("#overlay-button")
    live(page)
    context = server.created[0]
    assert context["image"].startswith("data:image/png;base64,")
    assert context["seed"] == 7


def test_enter_in_the_prompt_starts_the_session(visit: Opener, server: MockServer) -> None:
    server.behavior.required_context = ["prompt"]
    server.behavior.fields = {"properties": {"prompt": {"type": "string", "default": ""}}}
    page = visit(MJPEG)
    page.get_by_label("Prompt").fill("a harbour at night")
    page.get_by_label("Prompt").press("Enter")
    live(page)
    assert server.created[0] == {"prompt": "a harbour at night"}


def test_a_rejected_field_is_marked(visit: Opener, server: MockServer) -> None:
    server.behavior.rejected_field = "prompt"
    page = visit(failures=1)
    expect(page.locator("#field-prompt-error")).to_have_text("must be the name of a theme")
    expect(page.locator("#field-prompt")).to_be_focused()
    page.click("#overlay-button")
    live(page)
    expect(page.locator("#field-prompt-error")).to_be_hidden()


# -- protocol


def test_every_message_conforms_to_the_protocol(visit: Opener, server: MockServer) -> None:
    from realtime_engine.infra.controls.parsing import parse_message

    page = live(visit())
    page.keyboard.press("KeyW")
    page.mouse.move(300, 300)
    page.mouse.wheel(3, 120)
    page.get_by_label("Seed").fill("42")
    page.evaluate("dispatchEvent(new Event('blur'))")
    server.wait_for(
        lambda: {m["type"] for m in server.messages} == {"controls", "blur", "ping", "presented"}, "each type"
    )
    for message in list(server.messages):
        parse_message(message)
