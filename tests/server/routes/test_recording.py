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
from ..support import FREE, OwnedSession, Served, color, in_process, location_of, over_http, stop_idle_clock, until
from .test_webrtc import viewing

METHODS = [("POST", ""), ("GET", ""), ("DELETE", ""), ("GET", "/recording-1.mp4")]


@pytest.fixture
async def served(tmp_path: Path) -> AsyncIterator[Served]:
    async with in_process(recordings=str(tmp_path)) as made:
        yield made


async def ask(owned: OwnedSession, method: str = "GET", name: str = "", **given: Any) -> httpx.Response:
    url = owned.links["recording"] + name
    return await owned.client.request(method, url, headers={**owned.auth, **given})


async def record(served: Served, owned: OwnedSession, seconds: float = 0.1) -> None:
    """Start a recording and wait until it is longer than this."""
    answer = await ask(owned, "POST")
    assert answer.status_code == 201, answer.text
    await recorded(served, owned, seconds)


async def recorded(served: Served, owned: OwnedSession, seconds: float = 0.1) -> None:
    recordings = served.session(owned).media.recordings
    assert recordings is not None
    await until(lambda: recordings.describe()["seconds"] > seconds)  # rounded to milliseconds


def kind(answer: httpx.Response) -> tuple[int, str]:
    return answer.status_code, answer.json()["type"].rpartition(":")[2]


async def test_a_recording_is_started_stopped_listed_and_downloaded(served: Served) -> None:
    owned = await served.create(seed=150)
    assert (await ask(owned)).json() == {"state": "none", "reason": None, "seconds": 0.0, "bytes": 0, "files": []}
    started = await ask(owned, "POST")
    assert (started.status_code, location_of(started)) == (201, f"/{owned.links['recording']}")
    assert started.json()["state"] == "recording"
    await recorded(served, owned)
    stopped = await ask(owned, "DELETE")
    described = stopped.json()
    assert (stopped.status_code, described["state"], described["reason"]) == (200, "stopped", "asked")
    (file,) = described["files"]
    assert (file["name"], file["href"]) == ("recording-1.mp4", f"{owned.links['recording']}/recording-1.mp4")
    fetched = await ask(owned, name="/recording-1.mp4")
    assert fetched.headers["content-type"] == "video/mp4"
    assert fetched.headers["content-disposition"] == f'attachment; filename="{owned.id}-recording-1.mp4"'
    assert len(fetched.content) == file["bytes"] == described["bytes"]
    frames = play(fetched.content)
    red, green, blue = color(frames[-1].to_ndarray(format="rgb24"))
    assert abs(green - FREE) < 25 and abs(blue - 150) < 25
    assert (frames[-1].pts - frames[0].pts) / 90_000 >= 0.1
    again = await ask(owned, "DELETE")
    assert (again.status_code, again.json()) == (200, described)


async def test_a_link_downloads_a_recording_or_a_range_of_it(served: Served) -> None:
    owned = await served.create()
    await record(served, owned)
    await ask(owned, "DELETE")
    url = f"{owned.links['recording']}/recording-1.mp4"
    whole = await served.client.get(f"{url}?token={owned.token}")
    part = await served.client.get(f"{url}?token={owned.token}", headers={"Range": "bytes=4-7"})
    assert (part.status_code, part.content) == (206, b"ftyp") and whole.content[4:8] == b"ftyp"


async def test_a_session_has_one_recording_at_a_time_each_with_its_own_file(served: Served) -> None:
    owned = await served.create()
    await record(served, owned)
    assert kind(await ask(owned, "POST")) == (409, "recording-runs")
    assert kind(await ask(owned, name="/recording-1.mp4")) == (409, "recording-runs")
    await ask(owned, "DELETE")
    await record(served, owned)
    assert (await ask(owned, name="/recording-1.mp4")).status_code == 200
    files = (await ask(owned, "DELETE")).json()["files"]
    assert [file["name"] for file in files] == ["recording-1.mp4", "recording-2.mp4"]


async def test_recordings_require_the_sessions_token(served: Served) -> None:
    owned, other = await served.create(), await served.create()
    await record(served, owned, 0)
    for method, name in METHODS:
        url = owned.links["recording"] + name
        assert kind(await served.client.request(method, url)) == (401, "token")
        assert kind(await served.client.request(method, url, headers=other.auth)) == (401, "token")
        assert kind(await served.client.request(method, url.replace(owned.id, "unknown"))) == (404, "no-session")
    assert (await ask(owned)).json()["state"] == "recording"


async def test_other_files_cannot_be_downloaded(served: Served, tmp_path: Path) -> None:
    owned = await served.create()
    await record(served, owned)
    (tmp_path / owned.id / "notes.txt").write_text("secret")
    for name in ("recording-9.mp4", "..%2f..%2fetc%2fpasswd", "notes.txt"):
        answer = await ask(owned, name=f"/{name}")
        assert answer.status_code == 404 and kind(answer)[1] in ("no-recording", "not-found")


async def test_recording_is_disabled_without_a_directory() -> None:
    async with in_process() as served:
        owned = await served.create()
        assert (await served.client.get("/api/demo")).json()["recording"] is False
        assert "recording" not in owned.links
        for method, name in METHODS:
            url = f"{owned.links['self']}/recording{name}"
            assert kind(await served.client.request(method, url, headers=owned.auth)) == (404, "no-recordings")


async def test_the_description_says_whether_recording_is_enabled(served: Served) -> None:
    assert (await served.client.get("/api/demo")).json()["recording"] is True


async def test_the_end_of_the_session_completes_its_recording_which_stays_available(served: Served) -> None:
    owned = await served.create()
    await record(served, owned)
    assert (await owned.request("DELETE", "self")).status_code == 204
    described = (await ask(owned)).json()
    assert (described["state"], described["reason"]) == ("stopped", "session-over")
    assert (await ask(owned, "DELETE")).json() == described
    assert play((await ask(owned, name="/recording-1.mp4")).content)
    assert kind(await ask(owned, "POST")) == (410, "session-over")


async def test_an_unattended_recording_ends_and_so_does_its_session(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = stop_idle_clock(monkeypatch)
    async with in_process(recordings=str(tmp_path), idle_timeout_s=0.4) as served:
        owned = await served.create()
        media = served.session(owned).media
        await record(served, owned, 0)
        clock.advance(0.4)
        await until(lambda: media.recordings is not None and media.recordings.describe()["reason"] == "unattended")
        await until(lambda: media.frames.viewers == 0)
        clock.advance(0.4)
        await until(lambda: not served.runtime.sessions.all())
        assert play((await ask(owned, name="/recording-1.mp4")).content)


async def test_a_recording_ends_at_its_maximum_size(tmp_path: Path) -> None:
    async with in_process(recordings=str(tmp_path), recording_max_bytes=10) as served:
        owned = await served.create()
        recordings = served.session(owned).media.recordings
        assert recordings is not None
        await ask(owned, "POST")
        await recorded(served, owned)
        await ask(owned, "DELETE")
        described = (await ask(owned)).json()
        assert (described["reason"], described["bytes"], described["files"]) == ("full", 0, [])
        assert (await ask(owned, "POST")).status_code == 201, "the next may be as large"


async def test_a_recording_that_cannot_be_stored_is_refused(tmp_path: Path) -> None:
    (tmp_path / "old").mkdir()
    (tmp_path / "old" / "recording-1.mp4").write_bytes(bytes(1000))
    async with in_process(recordings=str(tmp_path), recordings_max_bytes=1000) as served:
        owned = await served.create()
        assert kind(await ask(owned, "POST")) == (507, "no-storage")
        await asyncio.to_thread(shutil.rmtree, tmp_path)
        answer = await ask(owned, "POST")
        assert kind(answer) == (507, "no-storage") and str(tmp_path) not in answer.text
        assert (await ask(owned)).json()["state"] == "none"


async def test_a_recording_and_a_webrtc_viewer_share_one_encoder(tmp_path: Path) -> None:
    async with over_http(recordings=str(tmp_path)) as served:
        owned = await served.create()
        session = served.session(owned)
        async with viewing(owned) as (receiver, _):
            await receiver.next_frame()
            await record(served, owned, 0.3)
            await receiver.next_frame()
            encoded = dict(session.media.video.stats)
            assert {key for key, stats in encoded.items() if stats.frames_encoded} == {(Codec.H264, Tier.FULL)}
            assert encoded[Codec.H264, Tier.FULL].viewers == 2
            assert session.counts().encodes[Tier.FULL] <= session.counts().published
            assert session.media.watching == 1, "a recording is not counted as a viewer"
            await ask(owned, "DELETE")
            assert encoded[Codec.H264, Tier.FULL].viewers == 1
            await receiver.next_frame()


async def test_recordings_are_counted(served: Served) -> None:
    owned = await served.create()
    await record(served, owned)
    assert "realtime_engine_recordings_running 1.0" in (await served.client.get("/metrics")).text
    size = (await ask(owned, "DELETE")).json()["bytes"]
    await record(served, owned)
    more = (await ask(owned, "DELETE")).json()["bytes"]
    text = (await served.client.get("/metrics")).text
    assert "realtime_engine_recordings_running 0.0" in text
    assert "realtime_engine_recordings_total 2.0" in text
    assert f"realtime_engine_recorded_bytes_total {float(size + more)}" in text


async def test_the_shutdown_completes_recordings(tmp_path: Path) -> None:
    async with over_http(recordings=str(tmp_path)) as served:
        owned = await served.create()
        await record(served, owned)
    assert play(tmp_path / owned.id / "recording-1.mp4")
