"""A page whose clock differs from the server's reports the frames that it has presented."""

from __future__ import annotations

import json
import time
from typing import Any

from realtime_engine.infra.telemetry.frame_latency import JoinCounts
from realtime_engine.infra.telemetry.timing import Milestone
from realtime_engine.infra.webrtc import WebRtcReceiver

from ..support import OwnedSession, in_process, message, over_http, until
from .test_webrtc import viewing

SHIFT_NS = 5_000_000_000_123


def page_ms(moment_ns: int) -> float:
    return (moment_ns + SHIFT_NS) / 1e6


async def next_message(receiver: WebRtcReceiver, kind: str) -> dict[str, Any]:
    while True:
        received: dict[str, Any] = json.loads(await receiver.next_message())
        if received["type"] == kind:
            return received


async def find_clock(receiver: WebRtcReceiver) -> dict[str, float]:
    sent = page_ms(time.monotonic_ns())
    receiver.send(message("ping", seq=1, t=sent))
    pong = await next_message(receiver, "pong")
    received = page_ms(time.monotonic_ns())
    return {"offset": pong["server_ns"] / 1e6 - (sent + received) / 2, "uncertainty": (received - sent) / 2}


async def shown(receiver: WebRtcReceiver) -> tuple[dict[str, Any], int]:
    """A frame as the page reports it, and when it was really received."""
    while (frame := await receiver.next_frame()).info is None:
        pass
    now_ns = time.monotonic_ns()
    identity = {"epoch": frame.info.epoch, "seq": frame.info.seq, "index": frame.info.index}
    return {**identity, "presented": page_ms(now_ns)}, now_ns


async def test_a_record_is_accurate_within_its_uncertainty() -> None:
    async with over_http() as served:
        owned = await served.create()
        session = served.session(owned)
        async with viewing(owned) as (receiver, answer):
            await receiver.channel_open()
            clock = await find_clock(receiver)
            reported, truth_ns = await shown(receiver)
            viewer = answer.headers["location"].rsplit("/", 1)[1]
            receiver.send(
                message(
                    "presented",
                    seq=2,
                    viewer=viewer,
                    clock=clock,
                    frames=[reported, {**reported, "seq": 99_999}],
                    timing=True,
                )
            )
            timing = await next_message(receiver, "timing")
            stages = {stage["stage"]: stage for stage in timing["stages"]}
            assert timing["transport"] == "webrtc" and stages["delivery"]["count"] == 1 and "decode" not in stages
            (record,) = [record for record in session.media.latency.records(0) if record.is_presented]
            presented_ns = record.times[Milestone.PRESENTED]
            assert presented_ns is not None and record.uncertainty_ns == round(clock["uncertainty"] * 1e6)
            sent_ns = record.times[Milestone.SENT]
            assert presented_ns == sent_ns or abs(presented_ns - truth_ns) <= record.uncertainty_ns + 1000
            known = [moment for moment in record.times[Milestone.STEP_BEGIN :] if moment is not None]
            assert known == sorted(known)
            counts = served.runtime.totals.counts
            assert (counts.joined, counts.unknown, counts.implausible) == (1, 1, 0)
            metrics = (await served.client.get("/metrics")).text
            assert 'frame_stage_seconds_count{stage="delivery",transport="webrtc"} 1.0' in metrics
            assert 'frame_records_total{outcome="joined"} 1.0' in metrics
            assert "clock_uncertainty_seconds_count 1.0" in metrics
            trace = (await owned.request("GET", "trace")).json()
            drawn = {event["cat"] for event in trace["traceEvents"] if event["ph"] == "X"}
            assert {"step", "emit", "pace", "encode", "send"} <= drawn
        await until(lambda: served.runtime.totals.counts.unpresented > 0)


async def test_mjpeg_pictures_are_recorded_too() -> None:
    async with in_process() as served:
        owned = await served.create()
        session = served.session(owned)
        with session.media.jpegs.subscribe() as viewer:
            await viewer.next()  # may have been published before the first viewer
            frame = (await viewer.next()).id
        identity = {"epoch": frame.epoch, "seq": frame.seq, "index": frame.frame_index}
        shown = {**identity, "presented": time.monotonic_ns() / 1e6}
        clock = {"offset": 0.0, "uncertainty": 0.0}
        (timing,) = await report(owned, clock=clock, frames=[shown], timing=True)
        stages = [stage["stage"] for stage in timing["stages"]]
        assert timing["transport"] == "mjpeg"
        assert stages == ["step", "emit", "pace", "encode", "delivery", "step_to_pixel"]
        assert await report(owned, clock=clock, frames=[shown]) == []
        (timing,) = await report(owned, clock=clock, frames=[shown], timing=True, viewer="unknown")
        assert timing["transport"] is None and timing["stages"] == []
        assert served.runtime.totals.counts == JoinCounts(joined=2, unknown=1)


async def report(owned: OwnedSession, **given: Any) -> list[dict[str, Any]]:
    response = await owned.request("POST", "actions", json={"v": 1, "type": "presented", "seq": 1, **given})
    assert response.status_code == 200, response.text
    return response.json()


async def test_nothing_is_recorded_without_viewers() -> None:
    async with in_process() as served:
        session = served.session(await served.create())
        await until(lambda: session.media.frames.statistics().published > 3)
        assert session.media.latency.records(0) == []


async def test_a_trace_requires_the_sessions_token_and_is_bounded() -> None:
    async with in_process() as served:
        owned = await served.create()
        assert (await served.client.get(owned.links["trace"])).status_code == 401
        for seconds in ("0", "61", "-1", "nan", "soon"):
            refused = await owned.request("GET", "trace", params={"seconds": seconds})
            assert (refused.status_code, refused.json()["type"].rsplit(":", 1)[1]) == (422, "invalid-request")
        answer = await owned.request("GET", "trace", params={"seconds": "60"})
        assert answer.status_code == 200 and answer.headers["content-disposition"].startswith("attachment")
        assert all(event["ph"] == "M" for event in answer.json()["traceEvents"])


async def test_the_trace_of_all_sessions_requires_the_servers_token() -> None:
    async with in_process(token="a-long-token") as served:
        assert (await served.client.get("/api/trace")).status_code == 401
        served.client.headers["Authorization"] = "Bearer a-long-token"
        places = [await served.create() for _ in range(2)]
        answer = await served.client.get("/api/trace?seconds=5")
        names = {event["args"]["name"] for event in answer.json()["traceEvents"] if event["name"] == "process_name"}
        assert names == {f"session {owned.id}: server" for owned in places}
