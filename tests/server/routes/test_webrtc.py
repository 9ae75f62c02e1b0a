from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import numpy as np
import pytest
import simplejpeg

from realtime_engine.infra.webrtc import IceServer, WebRtcReceiver
from realtime_engine.integrations.mirror.demo import demo as mirror
from realtime_engine.integrations.mirror.effects import EFFECTS
from realtime_engine.server.sessions.session import DemoSession

from ...infra.webrtc.free_ports import free_ports
from ...publisher import Paint, Publisher
from ..support import HELD, Place, colour, in_process, message, over_http, paint_demo, stop_idle_clock, until

SDP = {"Content-Type": "application/sdp"}
FRAGMENT = {"Content-Type": "application/trickle-ice-sdpfrag"}


@asynccontextmanager
async def viewing(place: Place) -> AsyncIterator[tuple[WebRtcReceiver, httpx.Response]]:
    receiver = WebRtcReceiver()
    try:
        answer = await place.request("POST", "whep", content=await receiver.offer(), headers=SDP)
        assert answer.status_code == 201, answer.text
        await receiver.set_answer(answer.text)
        yield receiver, answer
    finally:
        await receiver.close()


async def test_a_viewer_sees_and_steers_until_it_hangs_up() -> None:
    async with over_http() as served:
        place = await served.take()
        session = served.session(place)
        async with viewing(place) as (receiver, answer):
            assert answer.headers["location"].startswith(place.links["whep"] + "/")
            assert answer.headers["content-type"] == "application/sdp"
            frame = await receiver.next_frame()
            assert (frame.image.width, frame.image.height) == (64, 48)
            await receiver.channel_open()
            receiver.send(message("controls", seq=3, keys=["KeyW"]))
            while abs(colour(frame.rgb())[1] - HELD) > 25:
                frame = await receiver.next_frame()
            assert session.media.watching == 1
            location = answer.headers["location"]
            trickled = await served.client.patch(
                location,
                content="a=candidate:1 1 udp 2130706431 192.0.2.9 5000 typ host\r\n",
                headers={**place.auth, **FRAGMENT, "If-Match": answer.headers["etag"]},
            )
            assert trickled.status_code == 204
            for _ in range(2):
                assert (await served.client.delete(location, headers=place.auth)).status_code == 204
            await receiver.ended()
        assert session.media.watching == 0 and not session.controls.state.window().held("KeyW")


async def test_events_come_over_the_data_channel_and_the_picture_ends_with_the_session() -> None:
    async with over_http() as served:
        place = await served.take()
        async with viewing(place) as (receiver, _):
            await receiver.next_frame()
            await receiver.channel_open()
            await place.request("POST", "reset", json={})
            assert '"reset_done"' in await receiver.next_message()
            while (frame := await receiver.next_frame()).info is None or frame.info.epoch < 2:
                pass
            await place.request("DELETE", "self")
            await receiver.ended()


async def test_a_viewer_ends_with_the_server() -> None:
    async with over_http() as served:
        async with viewing(await served.take()) as (receiver, _):
            await receiver.next_frame()
            assert served.server is not None
            served.server.should_exit = True
            await receiver.ended()


async def test_a_vanished_session_keeps_no_viewer() -> None:
    async with over_http() as served:
        place = await served.take()
        session = served.session(place)
        for _ in range(3):
            async with viewing(place) as (receiver, _):
                await receiver.next_frame()
            await until(lambda: session.media.watching == 0 and session.media.frames.viewers == 0)


async def test_what_cannot_be_answered_is_a_problem() -> None:
    async with over_http(ice_servers=(IceServer("turn:turn.example:3478", "user", "secret"),)) as served:
        place = await served.take()
        wrong_type = await place.request("POST", "whep", content="v=0", headers={"Content-Type": "text/plain"})
        assert (wrong_type.status_code, wrong_type.json()["type"].rpartition(":")[2]) == (415, "media-type")
        bad = await place.request("POST", "whep", content="v=0", headers=SDP)
        assert (bad.status_code, bad.json()["type"].rpartition(":")[2]) == (400, "bad-offer")
        binary = await place.request("POST", "whep", content=b"\xff", headers=SDP)
        assert binary.status_code == 400
        nobody = await served.client.patch(place.links["whep"] + "/nobody", headers={**place.auth, **FRAGMENT})
        assert nobody.status_code == 404


async def test_candidates_are_checked() -> None:
    async with over_http() as served:
        place = await served.take()
        async with viewing(place) as (_, answer):
            location = answer.headers["location"]
            for content, headers, status in (
                ("nonsense", FRAGMENT, 400),
                ("a=ice-ufrag:other\r\n", FRAGMENT, 400),
                ("", {**FRAGMENT, "If-Match": '"other"'}, 412),
                ("", SDP, 415),
            ):
                response = await served.client.patch(location, content=content, headers={**place.auth, **headers})
                assert response.status_code == status


async def test_one_session_has_a_bounded_number_of_viewers() -> None:
    async with over_http() as served:
        place = await served.take()
        receivers = [WebRtcReceiver() for _ in range(9)]
        offers = [await receiver.offer() for receiver in receivers]
        answers = await asyncio.gather(*(place.request("POST", "whep", content=offer, headers=SDP) for offer in offers))
        assert sorted(answer.status_code for answer in answers) == [201] * 8 + [503]
        (refused,) = (answer for answer in answers if answer.status_code == 503)
        assert refused.json()["type"].endswith(":no-webrtc") and refused.headers["retry-after"] == "5"
        one = next(answer for answer in answers if answer.status_code == 201)
        await served.client.delete(one.headers["location"], headers=place.auth)
        again = await place.request("POST", "whep", content=offers[0], headers=SDP)
        assert again.status_code == 201
        for receiver in receivers:
            await receiver.close()


async def test_a_viewer_gets_credentials_of_its_own() -> None:
    async with over_http(ice_servers=(IceServer("turn:127.0.0.1:9"),), turn_secret="north") as served:
        async with viewing(await served.take()) as (_, answer):
            viewer_id = answer.headers["location"].rpartition("/")[2]
            assert f':{viewer_id}"; credential="' in answer.headers["link"]


async def test_viewers_keep_to_the_ports_and_one_too_many_is_told_to_come_later(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("aioice.ice.get_host_addresses", lambda **_: ["127.0.0.1"])
    ports = free_ports(1)
    async with over_http(udp_ports=str(ports)) as served:
        await until(lambda: served.runtime.route)
        place = await served.take()
        async with viewing(place) as (receiver, answer):
            await receiver.next_frame()
            assert f" 127.0.0.1 {ports.first} typ host" in answer.text
            other = WebRtcReceiver()
            refused = await place.request("POST", "whep", content=await other.offer(), headers=SDP)
            await other.close()
            assert refused.status_code == 503 and refused.headers["retry-after"]
            assert refused.json()["type"].endswith(":no-webrtc")
            assert "free UDP port" in refused.json()["detail"]


HEIGHT, WIDTH = 360, 640


def still(number: int = 0) -> np.ndarray:
    """A picture that is neither symmetric nor of one colour."""
    pixels = np.empty((HEIGHT, WIDTH, 3), np.uint8)
    pixels[:, : WIDTH // 2], pixels[:, WIDTH // 2 :] = (200, 60, 50), (50, 70, 190)
    pixels[: HEIGHT // 4] = (90, 180, 90)
    return pixels


def plain(colour: tuple[int, int, int]) -> Paint:
    return lambda number: np.full((HEIGHT, WIDTH, 3), colour, np.uint8)


def apart(one: np.ndarray, other: np.ndarray) -> float:
    """Typical difference of two pictures; edges, where video is soft, count little."""
    return float(np.median(np.abs(one.astype(int) - other.astype(int))))


@asynccontextmanager
async def publishing(
    place: Place, paint: Paint = still, **options: Any
) -> AsyncIterator[tuple[Publisher, httpx.Response]]:
    async with Publisher(paint, **options) as publisher:
        answer = await place.request("POST", "whip", content=await publisher.offer(), headers=SDP)
        assert answer.status_code == 201, answer.text
        await publisher.set_answer(answer.text)
        yield publisher, answer


async def picture_like(place: Place, expected: np.ndarray) -> None:
    """Ask for pictures until one is as expected."""
    while True:
        answer = await place.request("GET", "frame")
        if answer.status_code == 200 and apart(simplejpeg.decode_jpeg(answer.content), expected) < 8:
            return


def kind(answer: httpx.Response) -> tuple[int, str]:
    return answer.status_code, answer.json()["type"].rpartition(":")[2]


@pytest.mark.parametrize(("codec", "effect"), [("VP8", "posterise"), ("H264", "pixelate")])
async def test_what_goes_in_comes_out_transformed(codec: str, effect: str) -> None:
    async with over_http(mirror, ice_servers=(IceServer("turn:turn.example:3478", "user", "secret"),)) as served:
        place = await served.take(effect=effect, strength=0.8)
        expected = EFFECTS[effect](np.ascontiguousarray(still()[:, ::-1]), 0.8)
        async with publishing(place, codec=codec, audio=True) as (_, answer), viewing(place) as (receiver, _):
            assert answer.headers["location"].startswith(place.links["whip"] + "/")
            assert answer.headers["content-type"] == "application/sdp"
            assert answer.headers["link"].startswith('<turn:turn.example:3478>; rel="ice-server"')
            while apart((await receiver.next_frame()).rgb(), expected) >= 8:
                pass
            await picture_like(place, expected)
            await place.send(1, fields={"mirrored": False})
            await picture_like(place, EFFECTS[effect](still(), 0.8))


async def test_a_publisher_is_known_until_it_hangs_up() -> None:
    async with over_http(mirror) as served:
        place = await served.take(effect="none")
        session = served.session(place)
        async with publishing(place) as (_, answer):
            location, etag = answer.headers["location"], answer.headers["etag"]
            await until(lambda: window(session).frames)
            assert (await place.request("GET", "self")).json()["publisher"] == location.rpartition("/")[2]
            fine = {**place.auth, **FRAGMENT, "If-Match": etag}
            candidate = "a=candidate:1 1 udp 2130706431 192.0.2.9 5000 typ host\r\n"
            assert (await served.client.patch(location, content=candidate, headers=fine)).status_code == 204
            for content, headers, status in (
                ("nonsense", FRAGMENT, 400),
                ("a=ice-ufrag:other\r\n", FRAGMENT, 400),
                ("", {**FRAGMENT, "If-Match": '"other"'}, 412),
                ("", SDP, 415),
            ):
                refused = await served.client.patch(location, content=content, headers={**place.auth, **headers})
                assert refused.status_code == status
            for _ in range(2):
                assert (await served.client.delete(location, headers=place.auth)).status_code == 200
            assert not window(session).live and window(session).frames, "its last frame stays"
            counted = (await served.client.get("/metrics")).text
            assert f"realtime_engine_video_input_frames_total {session.counts().video_received}.0" in counted
            assert (await served.client.patch(location, content="", headers=fine)).status_code == 404
        assert (await place.request("GET", "self")).json()["publisher"] is None


async def test_a_second_publisher_replaces_the_first() -> None:
    async with over_http(mirror) as served:
        place = await served.take(effect="none")
        session = served.session(place)
        red, blue = plain((200, 40, 40)), plain((40, 60, 200))
        async with publishing(place, red) as (first, answer), viewing(place):
            await picture_like(place, red(0))
            async with publishing(place, blue):
                await picture_like(place, blue(0))
                await until(lambda: first.connection.connectionState == "closed")
                assert (await served.client.delete(answer.headers["location"], headers=place.auth)).status_code == 200
                assert window(session).live, "the first one's end is none of the second's"
                newest = window(session).newest
                assert newest is not None and newest.publisher == 2


async def test_a_refused_offer_leaves_the_publisher_alone() -> None:
    async with over_http(mirror) as served:
        place = await served.take()
        async with publishing(place) as (publisher, _):
            receiver = WebRtcReceiver()
            wants_to_see = await receiver.offer()
            await receiver.close()
            for content, headers, expected in (
                ("v=0", SDP, (400, "bad-offer")),
                (wants_to_see, SDP, (400, "bad-offer")),
                ("v=0", {"Content-Type": "text/plain"}, (415, "media-type")),
                (b"\xff", SDP, (400, "bad-request")),
                ("v" * 300_000, SDP, (413, "too-large")),
            ):
                answer = await place.request("POST", "whip", content=content, headers=headers)
                assert kind(answer) == expected
            await until(lambda: window(served.session(place)).frames)
            assert publisher.connection.connectionState == "connected"


async def test_a_publisher_ends_with_its_session_and_a_video_keeps_a_session(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = stop_idle_clock(monkeypatch)
    async with over_http(mirror, idle_timeout_s=0.2) as served:
        place = await served.take()
        session = served.session(place)
        async with publishing(place) as (publisher, _):
            for _ in range(3):
                await until(lambda: session.idle.idle_s == 0)
                clock.advance(0.15)
            assert not session.is_ending, "somebody is there, although nobody watches"
            await place.request("DELETE", "self")
            await until(lambda: publisher.connection.connectionState == "closed")
            again = await place.request("POST", "whip", content="v=0", headers=SDP)
            assert kind(again) == (410, "session-over")


async def test_frames_reach_the_model_as_input_does() -> None:
    async with over_http(mirror) as served:
        place = await served.take()
        session = served.session(place)
        async with viewing(place) as (receiver, _), publishing(place):
            await place.send(7, keys=[])
            await until(lambda: window(session).frames)
            while (frame := await receiver.next_frame()).info is None or frame.info.action_seq != 7:
                pass  # a frame of the camera is no message of the player's


@pytest.mark.parametrize("headers", [{}, {"Authorization": "Bearer wrong"}])
async def test_only_the_owner_sends(headers: dict[str, str]) -> None:
    async with in_process(mirror) as served:
        place = await served.take()
        for method, link in (("POST", place.links["whip"]), ("DELETE", place.links["whip"] + "/x")):
            answer = await served.client.request(method, link, headers={**SDP, **headers}, content="v=0")
            assert kind(answer) == (401, "token")
            assert answer.headers["www-authenticate"] == "Bearer"


async def test_a_demo_without_video_says_so() -> None:
    async with in_process(paint_demo()) as served:
        place = await served.take()
        assert "whip" not in place.links
        at = place.links["self"] + "/whip"
        for method, path in (("POST", at), ("PATCH", at + "/x")):
            answer = await served.client.request(method, path, headers={**place.auth, **SDP}, content="v=0")
            assert kind(answer) == (404, "no-video-input")
        assert (await served.client.delete(at + "/x", headers=place.auth)).status_code == 200
        assert (await served.client.get("/api/demo")).json()["video_input"] is None


async def test_clients_that_ask_first_are_answered() -> None:
    async with in_process(mirror, allowed_origins=("https://studio.example",)) as served:
        place = await served.take()
        asked = await served.client.options(place.links["whip"])
        assert (asked.status_code, asked.headers["accept-post"]) == (200, "application/sdp")
        assert "PATCH" in (await served.client.options(place.links["whip"] + "/x")).headers["allow"]
        preflight = await served.client.options(
            place.links["whip"],
            headers={
                "Origin": "https://studio.example",
                "Access-Control-Request-Method": "POST",
                "Access-Control-Request-Headers": "authorization,content-type",
            },
        )
        assert preflight.headers["access-control-allow-origin"] == "https://studio.example"
        declared = (await served.client.get("/api/demo")).json()["video_input"]
        assert declared == {"mode": "newest", "capacity": 8, "max_side": 640}


def window(session: DemoSession) -> Any:
    assert session.publishers is not None
    return session.publishers.video.window
