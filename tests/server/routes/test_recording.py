from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from realtime_engine.infra.encoding import Codec
from realtime_engine.infra.webrtc import Tier

from ...infra.recording.support import play
from ..support import FREE, Place, Served, colour, in_process, over_http, stop_idle_clock, until
from .test_webrtc import viewing

METHODS = [("POST", ""), ("GET", ""), ("DELETE", ""), ("GET", "/recording-1.mp4")]


@pytest.fixture
async def served(tmp_path: Path) -> AsyncIterator[Served]:
    async with in_process(recordings=str(tmp_path)) as made:
        yield made


async def ask(place: Place, method: str = "GET", name: str = "", **given: Any) -> httpx.Response:
    url = place.links["recording"] + name
    return await place.client.request(method, url, headers={**place.auth, **given})


async def record(served: Served, place: Place, seconds: float = 0.1) -> None:
    """Start a recording and wait until it is longer than this."""
    answer = await ask(place, "POST")
    assert answer.status_code == 201, answer.text
    await recorded(served, place, seconds)


async def recorded(served: Served, place: Place, seconds: float = 0.1) -> None:
    recordings = served.session(place).media.recordings
    assert recordings is not None
    await until(lambda: recordings.describe()["seconds"] > seconds)  # rounded to milliseconds


def kind(answer: httpx.Response) -> tuple[int, str]:
    return answer.status_code, answer.json()["type"].rpartition(":")[2]


async def test_a_recording_is_begun_ended_listed_and_fetched(served: Served) -> None:
    place = await served.take(seed=150)
    assert (await ask(place)).json() == {"state": "none", "reason": None, "seconds": 0.0, "bytes": 0, "files": []}
    begun = await ask(place, "POST")
    assert (begun.status_code, begun.headers["location"]) == (201, place.links["recording"])
    assert begun.json()["state"] == "recording"
    await recorded(served, place)
    stopped = await ask(place, "DELETE")
    described = stopped.json()
    assert (stopped.status_code, described["state"], described["reason"]) == (200, "stopped", "asked")
    (file,) = described["files"]
    assert (file["name"], file["href"]) == ("recording-1.mp4", f"{place.links['recording']}/recording-1.mp4")
    fetched = await ask(place, name="/recording-1.mp4")
    assert fetched.headers["content-type"] == "video/mp4"
    assert fetched.headers["content-disposition"] == f'attachment; filename="{place.id}-recording-1.mp4"'
    assert len(fetched.content) == file["bytes"] == described["bytes"]
    frames = play(fetched.content)
    red, green, blue = colour(frames[-1].to_ndarray(format="rgb24"))
    assert abs(green - FREE) < 25 and abs(blue - 150) < 25
    assert (frames[-1].pts - frames[0].pts) / 90_000 >= 0.1
    again = await ask(place, "DELETE")
    assert (again.status_code, again.json()) == (200, described)


async def test_a_link_can_fetch_it_and_parts_of_it(served: Served) -> None:
    place = await served.take()
    await record(served, place)
    await ask(place, "DELETE")
    url = f"{place.links['recording']}/recording-1.mp4"
    whole = await served.client.get(f"{url}?token={place.token}")
    part = await served.client.get(f"{url}?token={place.token}", headers={"Range": "bytes=4-7"})
    assert (part.status_code, part.content) == (206, b"ftyp") and whole.content[4:8] == b"ftyp"


async def test_one_at_a_time_and_the_next_gets_a_file_of_its_own(served: Served) -> None:
    place = await served.take()
    await record(served, place)
    assert kind(await ask(place, "POST")) == (409, "recording-runs")
    assert kind(await ask(place, name="/recording-1.mp4")) == (409, "recording-runs")
    await ask(place, "DELETE")
    await record(served, place)
    assert (await ask(place, name="/recording-1.mp4")).status_code == 200
    files = (await ask(place, "DELETE")).json()["files"]
    assert [file["name"] for file in files] == ["recording-1.mp4", "recording-2.mp4"]


async def test_only_the_owner_of_the_session_may(served: Served) -> None:
    place, other = await served.take(), await served.take()
    await record(served, place, 0)
    for method, name in METHODS:
        url = place.links["recording"] + name
        assert kind(await served.client.request(method, url)) == (401, "token")
        assert kind(await served.client.request(method, url, headers=other.auth)) == (401, "token")
        assert kind(await served.client.request(method, url.replace(place.id, "nobody"))) == (404, "no-session")
    assert (await ask(place)).json()["state"] == "recording"


async def test_there_is_nothing_else_to_fetch(served: Served, tmp_path: Path) -> None:
    place = await served.take()
    await record(served, place)
    (tmp_path / place.id / "notes.txt").write_text("secret")
    for name in ("recording-9.mp4", "..%2f..%2fetc%2fpasswd", "notes.txt"):
        answer = await ask(place, name=f"/{name}")
        assert answer.status_code == 404 and kind(answer)[1] in ("no-recording", "not-found")


async def test_without_a_folder_there_are_none() -> None:
    async with in_process() as served:
        place = await served.take()
        assert (await served.client.get("/api/demo")).json()["recording"] is False
        assert "recording" not in place.links
        for method, name in METHODS:
            url = f"{place.links['self']}/recording{name}"
            assert kind(await served.client.request(method, url, headers=place.auth)) == (404, "no-recordings")


async def test_the_demo_says_that_there_can_be_some(served: Served) -> None:
    assert (await served.client.get("/api/demo")).json()["recording"] is True


async def test_the_end_of_the_session_completes_it_and_its_owner_can_still_fetch_it(served: Served) -> None:
    place = await served.take()
    await record(served, place)
    assert (await place.request("DELETE", "self")).status_code == 204
    described = (await ask(place)).json()
    assert (described["state"], described["reason"]) == ("stopped", "session-over")
    assert (await ask(place, "DELETE")).json() == described
    assert play((await ask(place, name="/recording-1.mp4")).content)
    assert kind(await ask(place, "POST")) == (410, "session-over")


async def test_a_recording_that_nobody_attends_to_ends_and_so_does_the_session(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = stop_idle_clock(monkeypatch)
    async with in_process(recordings=str(tmp_path), idle_timeout_s=0.4) as served:
        place = await served.take()
        recordings = served.session(place).media.recordings
        await record(served, place, 0)
        assert recordings is not None
        clock.advance(0.4)
        await until(lambda: recordings.describe()["reason"] == "unattended")
        clock.advance(0.4)
        await until(lambda: not served.runtime.sessions.all())
        assert play((await ask(place, name="/recording-1.mp4")).content)


async def test_a_recording_ends_at_its_greatest_size(tmp_path: Path) -> None:
    async with in_process(recordings=str(tmp_path), recording_max_bytes=10) as served:
        place = await served.take()
        recordings = served.session(place).media.recordings
        assert recordings is not None
        await ask(place, "POST")
        await recorded(served, place)
        await ask(place, "DELETE")
        described = (await ask(place)).json()
        assert (described["reason"], described["bytes"], described["files"]) == ("full", 0, [])
        assert (await ask(place, "POST")).status_code == 201, "the next may be as large"


async def test_nothing_is_begun_where_nothing_can_be_stored(tmp_path: Path) -> None:
    (tmp_path / "old").mkdir()
    (tmp_path / "old" / "recording-1.mp4").write_bytes(bytes(1000))
    async with in_process(recordings=str(tmp_path), recordings_max_bytes=1000) as served:
        place = await served.take()
        assert kind(await ask(place, "POST")) == (507, "no-storage")
        await asyncio.to_thread(shutil.rmtree, tmp_path)
        answer = await ask(place, "POST")
        assert kind(answer) == (507, "no-storage") and str(tmp_path) not in answer.text
        assert (await ask(place)).json()["state"] == "none"


async def test_a_viewer_by_webrtc_costs_no_second_encode(tmp_path: Path) -> None:
    async with over_http(recordings=str(tmp_path)) as served:
        place = await served.take()
        session = served.session(place)
        async with viewing(place) as (receiver, _):
            await receiver.next_frame()
            await record(served, place, 0.3)
            await receiver.next_frame()
            encoded = dict(session.media.video.stats)
            assert {key for key, stats in encoded.items() if stats.frames_encoded} == {(Codec.H264, Tier.FULL)}
            assert encoded[Codec.H264, Tier.FULL].viewers == 2
            assert session.counts().encodes[Tier.FULL] <= session.counts().published
            assert session.media.watching == 1, "a recording is no viewer that anybody is told of"
            await ask(place, "DELETE")
            assert encoded[Codec.H264, Tier.FULL].viewers == 1
            await receiver.next_frame()


async def test_they_are_counted(served: Served) -> None:
    place = await served.take()
    await record(served, place)
    assert "realtime_engine_recordings_running 1.0" in (await served.client.get("/metrics")).text
    size = (await ask(place, "DELETE")).json()["bytes"]
    await record(served, place)
    more = (await ask(place, "DELETE")).json()["bytes"]
    text = (await served.client.get("/metrics")).text
    assert "realtime_engine_recordings_running 0.0" in text
    assert "realtime_engine_recordings_total 2.0" in text
    assert f"realtime_engine_recorded_bytes_total {float(size + more)}" in text


async def test_a_server_that_ends_completes_what_it_records(tmp_path: Path) -> None:
    async with over_http(recordings=str(tmp_path)) as served:
        place = await served.take()
        await record(served, place)
    assert play(tmp_path / place.id / "recording-1.mp4")
