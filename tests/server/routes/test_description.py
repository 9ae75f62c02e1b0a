import logging

import pytest

from realtime_engine.infra.demo import FrameFormat
from realtime_engine.infra.webrtc import IceServer
from realtime_engine.testing import ScriptedEngine

from ..support import CONTROLS, in_process, paint_demo, until


async def test_the_description_has_what_the_page_needs() -> None:
    servers = (IceServer("stun:a.example:3478"), IceServer("turn:b.example:3478", "user", "secret"))
    async with in_process(paint_demo(required_context=("prompt",)), ice_servers=servers) as served:
        demo = (await served.client.get("/api/demo")).json()
    assert (demo["name"], demo["title"], demo["state"], demo["error"]) == ("paint", "Paint", "ready", None)
    assert demo["controls"] == CONTROLS.describe()
    assert demo["required_context"] == ["prompt"]
    assert demo["transports"] == ["webrtc", "webcodecs", "mjpeg"]
    assert demo["ice_servers"] == [
        {"urls": "stun:a.example:3478"},
        {"urls": "turn:b.example:3478", "username": "user", "credential": "secret"},
    ]
    assert demo["ice_transport_policy"] == "all"
    assert demo["manifest"] | {"max_sessions": 2, "rate_hz": 60.0} == demo["manifest"]
    assert demo["video"] == {"width": None, "height": None, "fps": 60.0, "pixel_aspect": 1.0, "scaling": "smooth"}
    assert demo["page"] is None


class Wide(ScriptedEngine):
    def manifest(self):
        return type(super().manifest())(
            max_sessions=1, chunk_shape=(1, 2, 4, 3, 90, 160), frames_per_chunk=4, rate_hz=6
        )


async def test_the_size_of_the_video_follows_from_the_shape_of_a_chunk() -> None:
    async with in_process(paint_demo(Wide(), frames=FrameFormat("bvtchw"))) as served:
        demo = (await served.client.get("/api/demo")).json()
    assert demo["video"] == {"width": 320, "height": 90, "fps": 24.0, "pixel_aspect": 1.0, "scaling": "smooth"}


async def test_the_description_requires_the_servers_token() -> None:
    async with in_process(token="open sesame") as served:
        assert (await served.client.get("/api/demo")).status_code == 401
        access = {"Authorization": "Bearer open sesame"}
        assert (await served.client.get("/api/demo", headers=access)).status_code == 200


async def test_each_page_gets_its_own_relay_credentials() -> None:
    servers = (IceServer("turn:127.0.0.1:9"),)
    async with in_process(ice_servers=servers, turn_secret="north", relay_only=True) as served:
        demos = [(await served.client.get("/api/demo")).json() for _ in range(2)]
    one, two = (demo["ice_servers"][0] for demo in demos)
    assert one["urls"] == "turn:127.0.0.1:9" and one["credential"] != two["credential"]
    assert demos[0]["ice_transport_policy"] == "relay"


async def test_reachability_is_determined_and_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "realtime_engine")
    async with in_process(public_address="203.0.113.5") as served:
        await until(lambda: served.runtime.reachability)
        demo = (await served.client.get("/api/demo")).json()
    assert demo["webrtc_route"] == "public"
    assert [record.getMessage() for record in caplog.records if "WebRTC:" in record.message] == [
        f"WebRTC: {served.runtime.reachability}"
    ]
