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
from ..support import (
    HELD,
    OwnedSession,
    color,
    in_process,
    location_of,
    message,
    over_http,
    paint_demo,
    stop_idle_clock,
    until,
)

SDP = {"Content-Type": "application/sdp"}
FRAGMENT = {"Content-Type": "application/trickle-ice-sdpfrag"}


@asynccontextmanager
async def viewing(owned: OwnedSession) -> AsyncIterator[tuple[WebRtcReceiver, httpx.Response]]:
    receiver = WebRtcReceiver()
    try:
        answer = await owned.request("POST", "whep", content=await receiver.offer(), headers=SDP)
        assert answer.status_code == 201, answer.text
        await receiver.set_answer(answer.text)
        yield receiver, answer
    finally:
        await receiver.close()


async def test_a_viewer_watches_and_controls_until_it_disconnects() -> None:
    async with over_http() as served:
        owned = await served.create()
        session = served.session(owned)
        async with viewing(owned) as (receiver, answer):
            assert location_of(answer).startswith(f"/{owned.links['whep']}/")
            assert answer.headers["content-type"] == "application/sdp"
            frame = await receiver.next_frame()
            assert (frame.image.width, frame.image.height) == (64, 48)
            await receiver.channel_open()
            receiver.send(message("controls", seq=3, keys=["KeyW"]))
            while abs(color(frame.rgb())[1] - HELD) > 25:
                frame = await receiver.next_frame()
            assert session.media.watching == 1
            location = location_of(answer)
            trickled = await served.client.patch(
                location,
                content="a=candidate:1 1 udp 2130706431 192.0.2.9 5000 typ host\r\n",
                headers={**owned.auth, **FRAGMENT, "If-Match": answer.headers["etag"]},
            )
            assert trickled.status_code == 204
            for _ in range(2):
                assert (await served.client.delete(location, headers=owned.auth)).status_code == 204
            await receiver.ended()
        assert session.media.watching == 0 and not session.controls.state.window().held("KeyW")


async def test_events_use_the_data_channel_and_video_ends_with_the_session() -> None:
    async with over_http() as served:
        owned = await served.create()
        async with viewing(owned) as (receiver, _):
            await receiver.next_frame()
            await receiver.channel_open()
            await owned.request("POST", "reset", json={})
            assert '"reset_done"' in await receiver.next_message()
            while (frame := await receiver.next_frame()).info is None or frame.info.epoch < 2:
                pass
            await owned.request("DELETE", "self")
            await receiver.ended()


async def test_a_viewer_ends_with_the_server() -> None:
    async with over_http() as served, viewing(await served.create()) as (receiver, _):
        await receiver.next_frame()
        assert served.server is not None
        served.server.should_exit = True
        await receiver.ended()


async def test_an_ended_session_keeps_no_viewer() -> None:
    async with over_http() as served:
        owned = await served.create()
        session = served.session(owned)
        for _ in range(3):
            async with viewing(owned) as (receiver, _):
                await receiver.next_frame()
            await until(lambda: session.media.watching == 0 and session.media.frames.viewers == 0)


async def test_an_offer_without_an_answer_is_a_problem() -> None:
    async with over_http(ice_servers=(IceServer("turn:turn.example:3478", "user", "secret"),)) as served:
        owned = await served.create()
        wrong_type = await owned.request("POST", "whep", content="v=0", headers={"Content-Type": "text/plain"})
        assert (wrong_type.status_code, wrong_type.json()["type"].rpartition(":")[2]) == (415, "media-type")
        bad = await owned.request("POST", "whep", content="v=0", headers=SDP)
        assert (bad.status_code, bad.json()["type"].rpartition(":")[2]) == (400, "bad-offer")
        binary = await owned.request("POST", "whep", content=b"\xff", headers=SDP)
        assert binary.status_code == 400
        missing = await served.client.patch(owned.links["whep"] + "/unknown", headers={**owned.auth, **FRAGMENT})
        assert missing.status_code == 404


async def test_candidates_are_validated() -> None:
    async with over_http() as served:
        owned = await served.create()
        async with viewing(owned) as (_, answer):
            location = location_of(answer)
            for content, headers, status in (
                ("nonsense", FRAGMENT, 400),
                ("a=ice-ufrag:other\r\n", FRAGMENT, 400),
                ("", {**FRAGMENT, "If-Match": '"other"'}, 412),
                ("", SDP, 415),
            ):
                response = await served.client.patch(location, content=content, headers={**owned.auth, **headers})
                assert response.status_code == status


async def test_one_session_has_a_bounded_number_of_viewers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("realtime_engine.server.sessions.peers._MAX_VIEWERS", 8)
    async with over_http() as served:
        owned = await served.create()
        receivers = [WebRtcReceiver() for _ in range(9)]
        offers = [await receiver.offer() for receiver in receivers]
        answers = await asyncio.gather(*(owned.request("POST", "whep", content=offer, headers=SDP) for offer in offers))
        assert sorted(answer.status_code for answer in answers) == [201] * 8 + [503]
        (refused,) = (answer for answer in answers if answer.status_code == 503)
        assert refused.json()["type"].endswith(":no-webrtc") and refused.headers["retry-after"] == "5"
        one = next(answer for answer in answers if answer.status_code == 201)
        await served.client.delete(location_of(one), headers=owned.auth)
        again = await owned.request("POST", "whep", content=offers[0], headers=SDP)
        assert again.status_code == 201
        for receiver in receivers:
            await receiver.close()


async def test_a_viewer_gets_its_own_credentials() -> None:
    async with (
        over_http(ice_servers=(IceServer("turn:127.0.0.1:9"),), turn_secret="north") as served,
        viewing(await served.create()) as (_, answer),
    ):
        viewer_id = answer.headers["location"].rpartition("/")[2]
        assert f':{viewer_id}"; credential="' in answer.headers["link"]


async def test_viewers_use_the_configured_ports_and_get_503_when_none_is_free(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("aioice.ice.get_host_addresses", lambda **_: ["127.0.0.1"])
    ports = free_ports(1)
    async with over_http(udp_ports=str(ports)) as served:
        await until(lambda: served.runtime.reachability)
        owned = await served.create()
        async with viewing(owned) as (receiver, answer):
            await receiver.next_frame()
            assert f" 127.0.0.1 {ports.first} typ host" in answer.text
            other = WebRtcReceiver()
            refused = await owned.request("POST", "whep", content=await other.offer(), headers=SDP)
            await other.close()
            assert refused.status_code == 503 and refused.headers["retry-after"]
            assert refused.json()["type"].endswith(":no-webrtc")
            assert "free UDP port" in refused.json()["detail"]


HEIGHT, WIDTH = 360, 640


def still(number: int = 0) -> np.ndarray:
    """A picture that is neither symmetric nor of one color."""
    pixels = np.empty((HEIGHT, WIDTH, 3), np.uint8)
    pixels[:, : WIDTH // 2], pixels[:, WIDTH // 2 :] = (200, 60, 50), (50, 70, 190)
    pixels[: HEIGHT // 4] = (90, 180, 90)
    return pixels


def plain(color: tuple[int, int, int]) -> Paint:
    return lambda number: np.full((HEIGHT, WIDTH, 3), color, np.uint8)


def difference(one: np.ndarray, other: np.ndarray) -> float:
    """Typical difference of two pictures; edges, where video is soft, count little."""
    return float(np.median(np.abs(one.astype(int) - other.astype(int))))


@asynccontextmanager
async def publishing(
    owned: OwnedSession, paint: Paint = still, **options: Any
) -> AsyncIterator[tuple[Publisher, httpx.Response]]:
    async with Publisher(paint, **options) as publisher:
        answer = await owned.request("POST", "whip", content=await publisher.offer(), headers=SDP)
        assert answer.status_code == 201, answer.text
        await publisher.set_answer(answer.text)
        yield publisher, answer


async def picture_like(owned: OwnedSession, expected: np.ndarray) -> None:
    """Ask for pictures until one is as expected."""
    while True:
        answer = await owned.request("GET", "frame")
        if answer.status_code == 200 and difference(simplejpeg.decode_jpeg(answer.content), expected) < 8:
            return


def kind(answer: httpx.Response) -> tuple[int, str]:
    return answer.status_code, answer.json()["type"].rpartition(":")[2]


@pytest.mark.parametrize(("codec", "effect"), [("VP8", "posterise"), ("H264", "pixelate")])
async def test_input_video_is_transformed_and_shown(codec: str, effect: str) -> None:
    async with over_http(mirror, ice_servers=(IceServer("turn:turn.example:3478", "user", "secret"),)) as served:
        owned = await served.create(effect=effect, strength=0.8)
        expected = EFFECTS[effect](np.ascontiguousarray(still()[:, ::-1]), 0.8)
        async with publishing(owned, codec=codec, audio=True) as (_, answer), viewing(owned) as (receiver, _):
            assert location_of(answer).startswith(f"/{owned.links['whip']}/")
            assert answer.headers["content-type"] == "application/sdp"
            assert answer.headers["link"].startswith('<turn:turn.example:3478>; rel="ice-server"')
            while difference((await receiver.next_frame()).rgb(), expected) >= 8:
                pass
            await picture_like(owned, expected)
            await owned.send(1, fields={"mirrored": False})
            await picture_like(owned, EFFECTS[effect](still(), 0.8))


async def test_a_publisher_is_listed_until_it_disconnects() -> None:
    async with over_http(mirror) as served:
        owned = await served.create(effect="none")
        session = served.session(owned)
        async with publishing(owned) as (_, answer):
            location, etag = location_of(answer), answer.headers["etag"]
            await until(lambda: window(session).frames)
            assert (await owned.request("GET", "self")).json()["publisher"] == location.rpartition("/")[2]
            fine = {**owned.auth, **FRAGMENT, "If-Match": etag}
            candidate = "a=candidate:1 1 udp 2130706431 192.0.2.9 5000 typ host\r\n"
            assert (await served.client.patch(location, content=candidate, headers=fine)).status_code == 204
            for content, headers, status in (
                ("nonsense", FRAGMENT, 400),
                ("a=ice-ufrag:other\r\n", FRAGMENT, 400),
                ("", {**FRAGMENT, "If-Match": '"other"'}, 412),
                ("", SDP, 415),
            ):
                refused = await served.client.patch(location, content=content, headers={**owned.auth, **headers})
                assert refused.status_code == status
            for _ in range(2):
                assert (await served.client.delete(location, headers=owned.auth)).status_code == 200
            assert not window(session).live and window(session).frames, "its last frame stays"
            counted = (await served.client.get("/metrics")).text
            assert f"realtime_engine_video_input_frames_total {session.counts().video_received}.0" in counted
            assert (await served.client.patch(location, content="", headers=fine)).status_code == 404
        assert (await owned.request("GET", "self")).json()["publisher"] is None


async def test_a_second_publisher_replaces_the_first() -> None:
    async with over_http(mirror) as served:
        owned = await served.create(effect="none")
        session = served.session(owned)
        red, blue = plain((200, 40, 40)), plain((40, 60, 200))
        async with publishing(owned, red) as (first, answer), viewing(owned):
            await picture_like(owned, red(0))
            async with publishing(owned, blue):
                await picture_like(owned, blue(0))
                await until(lambda: first.connection.connectionState == "closed")
                assert (await served.client.delete(location_of(answer), headers=owned.auth)).status_code == 200
                assert window(session).live, "the end of the replaced publisher does not affect the second"
                newest = window(session).newest
                assert newest is not None and newest.publisher == 2


async def test_a_refused_offer_does_not_affect_the_publisher() -> None:
    async with over_http(mirror) as served:
        owned = await served.create()
        async with publishing(owned) as (publisher, _):
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
                answer = await owned.request("POST", "whip", content=content, headers=headers)
                assert kind(answer) == expected
            await until(lambda: window(served.session(owned)).frames)
            assert publisher.connection.connectionState == "connected"


async def test_a_publisher_ends_with_its_session_and_keeps_it_alive(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = stop_idle_clock(monkeypatch)
    async with over_http(mirror, idle_timeout_s=0.2) as served:
        owned = await served.create()
        session = served.session(owned)
        async with publishing(owned) as (publisher, _):
            for _ in range(3):
                await until(lambda: session.idle.idle_s == 0)
                clock.advance(0.15)
            assert not session.is_ending, "a publisher keeps the session although there are no viewers"
            await owned.request("DELETE", "self")
            await until(lambda: publisher.connection.connectionState == "closed")
            again = await owned.request("POST", "whip", content="v=0", headers=SDP)
            assert kind(again) == (410, "session-over")


async def test_input_frames_reach_the_model_like_controls() -> None:
    async with over_http(mirror) as served:
        owned = await served.create()
        session = served.session(owned)
        async with viewing(owned) as (receiver, _), publishing(owned):
            await owned.send(7, keys=[])
            await until(lambda: window(session).frames)
            while (frame := await receiver.next_frame()).info is None or frame.info.action_seq != 7:
                pass  # actions of camera frames have no message


@pytest.mark.parametrize("headers", [{}, {"Authorization": "Bearer wrong"}])
async def test_publishing_requires_the_sessions_token(headers: dict[str, str]) -> None:
    async with in_process(mirror) as served:
        owned = await served.create()
        for method, link in (("POST", owned.links["whip"]), ("DELETE", owned.links["whip"] + "/x")):
            answer = await served.client.request(method, link, headers={**SDP, **headers}, content="v=0")
            assert kind(answer) == (401, "token")
            assert answer.headers["www-authenticate"] == "Bearer"


async def test_a_demo_without_video_input_refuses_publishers() -> None:
    async with in_process(paint_demo()) as served:
        owned = await served.create()
        assert "whip" not in owned.links
        at = owned.links["self"] + "/whip"
        for method, path in (("POST", at), ("PATCH", at + "/x")):
            answer = await served.client.request(method, path, headers={**owned.auth, **SDP}, content="v=0")
            assert kind(answer) == (404, "no-video-input")
        assert (await served.client.delete(at + "/x", headers=owned.auth)).status_code == 200
        assert (await served.client.get("/api/demo")).json()["video_input"] is None


async def test_options_requests_are_answered() -> None:
    async with in_process(mirror, allowed_origins=("https://studio.example",)) as served:
        owned = await served.create()
        asked = await served.client.options(owned.links["whip"])
        assert (asked.status_code, asked.headers["accept-post"]) == (200, "application/sdp")
        assert "PATCH" in (await served.client.options(owned.links["whip"] + "/x")).headers["allow"]
        preflight = await served.client.options(
            owned.links["whip"],
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
