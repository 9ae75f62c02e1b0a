"""The complete path with a real model: two players in two worlds of one batch."""

from __future__ import annotations

import numpy as np
import simplejpeg

from realtime_engine.infra.mjpeg import parse_frame_id
from realtime_engine.integrations.maze.demo import Options, demo
from realtime_engine.server import ServerConfig, create_app

from .routes.test_media import watching
from .routes.test_webrtc import viewing
from .support import create_session, message, over_http, until


def difference(one: np.ndarray, other: np.ndarray) -> float:
    return float(np.abs(one.astype(int) - other.astype(int)).mean())


async def test_two_players_walk_in_two_worlds() -> None:
    async with over_http(demo) as served:
        one, other = await served.create(seed=1), await served.create(seed=2)
        async with viewing(one) as (receiver, _), watching(other) as parts:
            mine = (await receiver.next_frame()).rgb()
            assert mine.shape == (360, 640, 3)
            _, jpeg = await parts.next()
            theirs = simplejpeg.decode_jpeg(jpeg)
            assert difference(mine, theirs) > 5

            await receiver.channel_open()
            receiver.send(message("controls", seq=1, keys=["KeyE", "KeyW"]))
            moved = await receiver.next_frame()
            while difference(moved.rgb(), mine) < 10:
                moved = await receiver.next_frame()
            assert moved.info is not None and moved.info.action_seq == 1

            headers, jpeg = await parts.next()
            while parse_frame_id(headers["X-Frame"]).seq < moved.info.seq:
                headers, jpeg = await parts.next()
            assert parse_frame_id(headers["X-Frame"]).action_id is None
            assert difference(simplejpeg.decode_jpeg(jpeg), theirs) < difference(moved.rgb(), mine)

            await other.send(1, fields={"prompt": "lava"})
            while difference(simplejpeg.decode_jpeg(jpeg), theirs) < 10:
                _, jpeg = await parts.next()


async def test_chunks_of_several_frames_are_played_one_by_one() -> None:
    app = create_app(demo, ServerConfig(), options=Options(max_sessions=1, width=64, height=32, frames_per_chunk=4))
    async with app.router.lifespan_context(app):
        runtime = app.state.runtime
        await until(lambda: runtime.host.manifest is not None)
        session = await create_session(runtime, {"seed": 3})
        with session.media.frames.subscribe() as viewer:
            for index in (0, 1, 2, 3):
                while (await viewer.next()).id.frame_index != index:
                    pass
