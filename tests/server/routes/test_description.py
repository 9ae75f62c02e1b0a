from realtime_engine.infra.demo import FrameFormat
from realtime_engine.infra.webrtc import IceServer
from realtime_engine.testing import ScriptedEngine

from ..support import CONTROLS, in_process, paint_demo


async def test_the_page_learns_all_that_it_needs() -> None:
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
    assert demo["manifest"] | {"max_sessions": 2, "rate_hz": 60.0} == demo["manifest"]
    assert demo["video"] == {"width": None, "height": None, "fps": 60.0}
    assert demo["page"] is None


class Wide(ScriptedEngine):
    def manifest(self):
        return type(super().manifest())(
            max_sessions=1, chunk_shape=(1, 2, 4, 3, 90, 160), frames_per_chunk=4, rate_hz=6
        )


async def test_the_size_of_the_video_follows_from_the_shape_of_a_chunk() -> None:
    async with in_process(paint_demo(Wide(), frames=FrameFormat("bvtchw"))) as served:
        demo = (await served.client.get("/api/demo")).json()
    assert demo["video"] == {"width": 320, "height": 90, "fps": 24.0}


async def test_a_server_with_a_token_tells_strangers_nothing() -> None:
    async with in_process(token="open sesame") as served:
        assert (await served.client.get("/api/demo")).status_code == 401
        access = {"Authorization": "Bearer open sesame"}
        assert (await served.client.get("/api/demo", headers=access)).status_code == 200
