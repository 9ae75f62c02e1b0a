"""What a demo adds to the page: texts, values, colors, a style sheet and a script; themes; the shape of pixels."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.sync_api import Page, expect

from .conftest import Opener
from .mock_server import MockServer
from .steps import MJPEG, live

LIGHT, DARK = "rgb(246, 245, 242)", "rgb(13, 14, 16)"


def background(page: Page) -> str:
    return str(page.evaluate("getComputedStyle(document.body).backgroundColor"))


@pytest.mark.parametrize(
    ("theme", "preferred", "shown"),
    [
        ("auto", "light", LIGHT),
        ("auto", "dark", DARK),
        ("light", "dark", LIGHT),
        ("dark", "light", DARK),
    ],
)
def test_the_theme_is_that_of_the_demo_or_of_the_browser(
    visit: Opener, server: MockServer, theme: str, preferred: Any, shown: str
) -> None:
    server.behavior.style = {"theme": theme}
    page = live(visit(MJPEG, color_scheme=preferred))
    assert background(page) == shown


def test_texts_values_and_colors_of_the_demo_are_shown(visit: Opener, server: MockServer) -> None:
    server.behavior.style = {
        "help": "Walk.\n\nJump <b>high</b>.",
        "footer": "By the lab.",
        "hud": ["lives", "best_score"],
        "colors": {"background": "teal"},
    }
    page = live(visit(MJPEG))
    expect(page.locator("#footer")).to_have_text("By the lab.")
    page.click("#help summary")
    expect(page.locator("#help-text p")).to_have_text(["Walk.", "Jump <b>high</b>."])
    assert background(page) == "rgb(0, 128, 128)"
    expect(page.locator("#hud")).to_be_hidden()
    server.send({"v": 1, "type": "hud", "values": {"best_score": 1.23456, "lives": 3.0}})
    expect(page.locator("#hud dt")).to_have_text(["lives", "best score"])
    expect(page.locator("#hud dd")).to_have_text(["3", "1.235"])


def test_files_of_the_demo_are_loaded_under_the_policy_of_the_page(visit: Opener, server: MockServer) -> None:
    server.behavior.style = {"base": "style/", "files": ["extra.css", "extra.js"], "logo": "logo.svg"}
    page = live(visit(MJPEG))
    expect(page.locator("#logo")).to_be_visible()
    expect(page.locator("body")).to_have_css("border-top-width", "3px")
    expect(page.locator("body")).to_have_attribute("data-extra", "loaded")


def test_without_additions_the_page_has_no_place_for_them(visit: Opener) -> None:
    page = live(visit(MJPEG))
    for name in ("logo", "help", "footer", "hud"):
        expect(page.locator(f"#{name}")).to_be_hidden()


@pytest.mark.parametrize("is_fullscreen", [False, True])
@pytest.mark.parametrize("pixel_aspect", [1.0, 0.5, 1.5])
def test_pixels_have_the_shape_that_the_demo_declares(
    visit: Opener, server: MockServer, pixel_aspect: float, is_fullscreen: bool
) -> None:
    server.behavior.pixel_aspect = pixel_aspect
    server.behavior.pointer = "position"
    page = live(visit(MJPEG))
    if is_fullscreen:
        page.click("#fullscreen")
        page.wait_for_function("document.fullscreenElement !== null")
    expect(page.locator("#image")).to_be_visible()
    page.wait_for_function(
        "(wanted) => { const box = document.querySelector('#image').getBoundingClientRect();"
        "return Math.abs(box.width / box.height - wanted) < 0.02 }",
        arg=640 * pixel_aspect / 360,
    )
    box = page.locator("#image").bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + 0.25 * box["width"], box["y"] + 0.75 * box["height"])
    server.wait_for(lambda: abs(position(server, "x") - 0.25) < 0.02, "the position")
    assert abs(position(server, "y") - 0.75) < 0.02


def position(server: MockServer, axis: str) -> float:
    pointers = [message["pointer"] for message in server.messages if message.get("pointer")]
    return float(pointers[-1][axis]) if pointers else 0.5


@pytest.mark.parametrize(("scaling", "rendering"), [("smooth", "auto"), ("sharp", "pixelated")])
def test_scaling_may_be_sharp(visit: Opener, server: MockServer, scaling: str, rendering: str) -> None:
    server.behavior.scaling = scaling
    page = live(visit(MJPEG))
    expect(page.locator("#image")).to_have_css("image-rendering", rendering)
