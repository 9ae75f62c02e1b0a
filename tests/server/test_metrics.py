from __future__ import annotations

from prometheus_client.parser import text_string_to_metric_families

from .support import Served, frame_where, in_process, paint_demo

ACCESS = {"Authorization": "Bearer open sesame"}


async def read(served: Served) -> dict[str, float]:
    response = await served.client.get("/metrics", headers=ACCESS)
    assert response.status_code == 200 and response.headers["content-type"].startswith("text/plain")
    samples = [sample for family in text_string_to_metric_families(response.text) for sample in family.samples]
    return {f"{sample.name}{sample.labels or ''}": sample.value for sample in samples}


async def test_the_metrics_follow_a_session() -> None:
    async with in_process() as served:
        before = await read(served)
        assert before["realtime_engine_ready"] == 1 and before["realtime_engine_ticks_total"] == 0
        assert "realtime_engine_sessions" not in before
        assert before["realtime_engine_copied_bytes_total{'copy': 'rgb_to_i420'}"] == 0
        owned = await served.create()
        session = served.session(owned)
        await owned.send(1, keys=["KeyW"])
        await frame_where(session, lambda color: color[0] > 3)
        living = await read(served)
        for name in ("ticks_total", "steps_total", "chunks_total", "step_seconds_count", "input_to_step_seconds_count"):
            assert living["realtime_engine_" + name] > 0
        assert living["realtime_engine_sessions"] == 1 and living["realtime_engine_places"] == 2
        assert living["realtime_engine_viewers{'transport': 'mjpeg'}"] == 0
        assert living["realtime_engine_frames_published_total"] > 3
        assert living["realtime_engine_step_seconds{'quantile': '0.95'}"] > 0
        assert living["realtime_engine_event_loop_lag_seconds_count"] > 0
        assert living["realtime_engine_event_loop_lag_seconds{'quantile': '0.99'}"] >= 0
        assert living["realtime_engine_event_loop_lag_max_seconds"] >= 0
        for tier in ("full", "half", "quarter"):
            assert living[f"realtime_engine_tier_viewers{{'tier': '{tier}'}}"] == 0
            assert living[f"realtime_engine_tier_bits_per_second{{'tier': '{tier}'}}"] == 0
            assert living[f"realtime_engine_keyframes_total{{'tier': '{tier}'}}"] == 0
        assert living["realtime_engine_picture_losses_total{'cause': 'nack', 'tier': 'full'}"] == 0
        await owned.request("DELETE", "self")
        after = await read(served)
        assert after["realtime_engine_sessions"] == 0
        assert after["realtime_engine_frames_published_total"] >= living["realtime_engine_frames_published_total"]


async def test_two_servers_in_one_process_are_counted_separately() -> None:
    async with in_process() as one, in_process(paint_demo(name="other")) as other:
        await one.create()
        assert (await read(one))["realtime_engine_sessions"] == 1
        assert "realtime_engine_sessions" not in await read(other)


async def test_the_metrics_require_the_token() -> None:
    async with in_process(token="open sesame") as served:
        assert (await served.client.get("/metrics")).status_code == 401
        await read(served)
