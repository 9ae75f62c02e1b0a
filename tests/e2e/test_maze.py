"""Players walk through the maze in a real browser."""

from __future__ import annotations

import re

import cv2
import numpy as np
import pytest
from playwright.sync_api import Error, expect

from .conftest import Launch, Opener
from .maze import MazeServer
from .walker import Walker

NO_UDP = [f"--{force}webrtc-ip-handling-policy=disable_non_proxied_udp" for force in ("", "force-")]  # new, old name
REFUSED = "Failed to load resource"
INVITE_A_VIEWER = """async () => {
    const stored = Object.entries(sessionStorage).find(([name]) => name.endsWith(":session"));
    const { token, links } = JSON.parse(stored[1]);
    const headers = { Authorization: `Bearer ${token}`, "Content-Type": "application/json" };
    const answer = await fetch(links.invitations, { method: "POST", headers, body: "{}" });
    return (await answer.json()).link;
}"""
LOST = ("Failed to load resource", "WebSocket connection to")


def test_two_people_walk_through_two_worlds_of_one_batch(server: MazeServer, visit: Opener) -> None:
    first, second = (visit(server).until_live().in_world(seed) for seed in (0, 4))
    watched = [viewers for viewers in server.viewers() if viewers]  # those of pages closed before end within seconds
    assert watched == [1, 1], "two sessions of one engine, each with its viewer"
    assert np.median(np.abs(first.pixels() - second.pixels())) > 6
    for walker, other in ((first, second), (second, first)):
        walker.keep("here")
        other.keep("there")
        with walker.holding("KeyW"):
            walker.until_elsewhere("here")
        walker.until_still()
        other.until_back("there")


@pytest.mark.parametrize("key", ["KeyW", "ArrowUp"])
def test_a_held_key_moves_and_its_release_stops(server: MazeServer, visit: Opener, key: str) -> None:
    walker = visit(server).until_live().in_world(0)
    walker.keep("start")
    with walker.holding(key):
        walker.until_elsewhere("start")
        with pytest.raises(Error, match="still moves"):
            walker.until_still(timeout_ms=500)
    walker.until_still()
    walker.keep("rest")
    walker.until_elsewhere("start")


def test_a_theme_recolors_the_world(server: MazeServer, visit: Opener) -> None:
    walker = visit(server).until_live().in_world(0)
    before = walker.pixels()
    walker.keep("dungeon")
    theme = walker.page.get_by_label("Theme")
    theme.fill("ice")
    theme.press("Enter")
    walker.until_recolored("dungeon", least=20)
    gained = (walker.pixels() - before).mean(axis=(0, 1))
    assert gained[2] > gained[0], "ice is bluer"


def test_reset_returns_to_the_start(server: MazeServer, visit: Opener) -> None:
    walker = visit(server).until_live()
    walker.keep("start")
    with walker.holding("KeyE"):
        walker.until_elsewhere("start")
    walker.until_still()
    walker.page.click("#reset")
    walker.until_back("start")
    walker.until_still()
    walker.until_back("start")


def test_blocked_udp_falls_back_to_webcodecs_and_still_walks(server: MazeServer, launch: Launch, visit: Opener) -> None:
    with launch(*NO_UDP) as browser:
        walker = visit(server, browser=browser).until_live()
        expect(walker.page.locator("#notice")).to_contain_text("UDP blocked?). Using WebCodecs instead.")
        expect(walker.page.locator("#canvas")).to_be_visible()
        walk(walker)
        expect(walker.page.locator('[data-stat="latency"]')).to_have_text(re.compile(r"^\d+ ms$"))


def test_a_browser_without_webrtc_and_webcodecs_falls_back_to_mjpeg(server: MazeServer, visit: Opener) -> None:
    walker = visit(server, script="delete window.RTCPeerConnection; delete window.VideoDecoder").until_live()
    notice = "This browser does not support WebCodecs. Using MJPEG instead."
    expect(walker.page.locator("#notice")).to_contain_text(notice)
    expect(walker.page.locator("#image")).to_be_visible()
    walk(walker)


def walk(walker: Walker) -> None:
    walker.keep("start")
    with walker.holding("KeyE"):
        walker.until_elsewhere("start")
    walker.until_still()


def test_a_page_waits_in_line_until_another_one_is_closed(small_server: MazeServer, visit: Opener) -> None:
    first = visit(small_server).until_live()
    second = visit(small_server)
    overlay = second.page.locator("#overlay")
    expect(overlay).to_contain_text("Number 1 in line")
    expect(second.page.locator(".lobby-session")).to_have_count(1)
    with second.page.context.expect_page() as opened:
        second.page.get_by_role("button", name="Watch").click()
    expect(opened.value.locator("#status")).to_have_text("Watching")
    opened.value.close()
    expect(overlay).to_contain_text(re.compile(r"About \d+ (seconds|minutes) to wait|Your turn is next"))
    third = visit(small_server)
    expect(third.page.locator("#overlay")).to_contain_text("Number 2 in line")
    second.page.reload()
    expect(overlay).to_contain_text("Number 1 in line")
    expect(second.page).to_have_title(re.compile(r"^\(1\) "))
    first.page.close(run_before_unload=False)
    second.until_live()
    expect(third.page.locator("#overlay")).to_contain_text("Number 1 in line")
    third.page.click("#overlay-button")
    expect(third.page.locator("#overlay")).to_contain_text("You have left the line.")


def test_a_reloaded_page_returns_to_its_session_and_row(small_server: MazeServer, visit: Opener) -> None:
    walker = visit(small_server).until_live()
    for _ in range(10):
        walker.page.reload()
        walker.until_live()
    assert small_server.log.count(" started; ") == 1
    walk(walker)


def test_a_shared_session_is_watched_and_not_controlled(small_server: MazeServer, visit: Opener) -> None:
    owner = visit(small_server).until_live()
    owner.page.click("#share")
    expect(owner.page.locator("#share-dialog")).to_be_visible()
    expect(owner.page.locator("#share-note")).to_contain_text("works on this computer only")
    link = owner.page.locator("#share-link").input_value()
    picture = np.frombuffer(owner.page.locator("#share-qr").screenshot(), np.uint8)
    assert cv2.QRCodeDetector().detectAndDecode(cv2.imdecode(picture, cv2.IMREAD_GRAYSCALE))[0] == link
    guest = visit(small_server, link.removeprefix(small_server.url), expected=LOST)
    expect(guest.page.locator("#status")).to_have_text("Watching")
    expect(guest.page.locator("#reset")).to_be_hidden()
    expect(owner.page.locator("#share-viewers")).to_have_text("1 viewer")
    owner.page.click("#share-close")
    guest.keep("start")
    with guest.holding("KeyE"):
        guest.page.wait_for_timeout(500)
        guest.until_still()
        guest.until_back("start")
    owner.page.locator("#stage").focus()
    with owner.holding("KeyE"):
        guest.until_elsewhere("start")
    guest.page.reload()
    expect(guest.page.locator("#status")).to_have_text("Watching")
    owner.page.close(run_before_unload=False)
    expect(guest.page.locator("#overlay")).to_contain_text("Nothing to watch", timeout=20_000)


def test_two_controllers_share_a_session_and_one_takes_it_over(small_server: MazeServer, visit: Opener) -> None:
    owner = visit(small_server).until_live()
    owner.page.click("#share")
    owner.page.select_option("#share-role", "controller")
    link_field = owner.page.locator("#share-link")
    expect(link_field).to_have_value(re.compile(r"\?join="))
    link = link_field.input_value()
    guest = visit(small_server, link.removeprefix(small_server.url)).until_live()
    expect(owner.page.locator("#share-viewers")).to_have_text("0 viewers, 1 controller")
    owner.page.click("#share-close")
    for hidden in ("#reset", "#share"):
        expect(guest.page.locator(hidden)).to_be_hidden()
    expect(guest.page.locator("#legend")).to_be_visible()

    for player in (guest, owner):
        player.until_still()
        owner.keep("before")
        player.page.locator("#stage").focus()
        with player.holding("KeyE"):
            owner.until_elsewhere("before")
    owner.until_still()
    expect(guest.page.locator("[data-stat=latency]")).not_to_have_text("–")  # of its own key presses

    request = owner.page.locator("#takeover-request")
    guest.page.click("#takeover")
    expect(request).to_be_visible()
    owner.page.click("#takeover-refuse")
    expect(guest.page.locator("#toasts")).to_contain_text("The owner keeps the session.")
    expect(request).to_be_hidden()
    owner.page.reload()
    owner.until_live()
    expect(owner.page.locator("#takeover")).to_be_hidden()

    viewer_link = owner.page.evaluate(INVITE_A_VIEWER)
    viewer = visit(small_server, viewer_link)
    expect(viewer.page.locator("#status")).to_have_text("Watching")
    viewer.page.click("#takeover")
    owner.page.click("#takeover-accept")
    expect(viewer.page.locator("#reset")).to_be_visible()
    expect(viewer.page.locator("#toasts")).to_contain_text("You own the session now.")
    expect(owner.page.locator("#reset")).to_be_hidden()
    viewer.until_still()
    viewer.keep("taken")
    viewer.page.locator("#stage").focus()
    with viewer.holding("KeyE"):
        viewer.until_elsewhere("taken")
    viewer.page.click("#reset")
    guest.page.reload()
    guest.until_live()
    owner.page.close()
    guest.page.close()
    viewer.until_still()
    viewer.keep("last")
    with viewer.holding("KeyE"):
        viewer.until_elsewhere("last")
    assert small_server.log.count(" started; ") == 1


def test_a_turn_ends_for_a_page_that_waits(turn_server: MazeServer, visit: Opener) -> None:
    first = visit(turn_server, expected=(REFUSED, "WebSocket")).until_live()
    second = visit(turn_server)
    countdown = first.page.locator("#turn")
    expect(countdown).to_have_text(re.compile(r"^Others are waiting\. Your turn ends in \d+ s\.$"))
    second.until_live(timeout_ms=25_000)
    expect(first.page.locator("#overlay")).to_contain_text("Your turn has ended")
    expect(countdown).to_be_hidden()
    first.page.click("#overlay-button")
    expect(first.page.locator("#overlay")).to_contain_text("Number 1 in line")


def test_a_crashed_page_frees_its_row(small_server: MazeServer, visit: Opener) -> None:
    first = visit(small_server).until_live()
    second = visit(small_server)
    expect(second.page.locator("#overlay")).to_contain_text("Number 1 in line")
    with first.page.expect_event("crash"), pytest.raises(Error, match="crash"):
        first.page.goto("chrome://crash")
    second.until_live()


def test_a_page_reconnects_to_a_restarted_server(small_server: MazeServer, visit: Opener) -> None:
    walker = visit(small_server, expected=LOST).until_live()
    small_server.stop()
    expect(walker.page.locator("#status")).to_have_text("Reconnecting")
    small_server.start()
    walker.until_live(timeout_ms=18_000)
    walker.keep("start")
    with walker.holding("KeyE"):
        walker.until_elsewhere("start")
