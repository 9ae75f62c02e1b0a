from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx
import pytest

from realtime_engine.infra.webrtc import IceServer, WebRtcReceiver

from ...infra.webrtc.free_ports import free_ports
from ..support import HELD, Place, colour, message, over_http, until

SDP = {"Content-Type": "application/sdp"}
FRAGMENT = {"Content-Type": "application/trickle-ice-sdpfrag"}


@asynccontextmanager
async def viewing(place: Place) -> AsyncIterator[tuple[WebRtcReceiver, httpx.Response]]:
    receiver = WebRtcReceiver()
    try:
        answer = await place.request("POST", "whep", content=await receiver.offer(), headers=SDP)
        assert answer.status_code == 201, answer.text
        await receiver.accept(answer.text)
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
            assert session.watching == 1
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
        assert session.watching == 0 and not session.steering.state.window().held("KeyW")


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
            await until(lambda: session.watching == 0 and session.publisher.viewers == 0)


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
