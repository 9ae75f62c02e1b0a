"""The client against the real server: what a browser can do, and every way in which it ends."""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator

import httpx
import pytest

from realtime_engine.client import (
    ClientClosedError,
    ClientError,
    ClientFrame,
    FullError,
    RealtimeClient,
    RefusedError,
    RejectedError,
    SessionEndedError,
    TransportError,
    UnreachableError,
)
from realtime_engine.client.client import Transport

from .support import BRIGHT, DARK, HEIGHT, TIMEOUT_S, WIDTH, Running, lamp

MIDDLE = (BRIGHT + DARK) / 2


@pytest.fixture
def server() -> Iterator[Running]:
    with Running(lamp()) as running:
        yield running


@pytest.fixture(params=["webrtc", "mjpeg"])
async def client(server: Running, request: pytest.FixtureRequest) -> AsyncIterator[RealtimeClient]:
    async with RealtimeClient.connect(server.url, transport=request.param) as connected:
        yield connected


async def first_frame_shaped_by(client: RealtimeClient, seq: int) -> ClientFrame:
    async def look() -> ClientFrame:
        async for frame in client.frames():
            if frame.action_seq is not None and frame.action_seq >= seq:
                return frame
        raise AssertionError("the client was closed")

    return await asyncio.wait_for(look(), TIMEOUT_S)


async def outcome(client: RealtimeClient) -> ClientError:
    """How the stream of frames ends."""

    async def watch() -> ClientError:
        try:
            async for _ in client.frames():
                pass
        except ClientError as error:
            return error
        raise AssertionError("the frames ended without an error")

    return await asyncio.wait_for(watch(), TIMEOUT_S)


async def test_frames_have_pixels_and_an_identity(client: RealtimeClient) -> None:
    frames = [await client.next_frame(TIMEOUT_S) for _ in range(4)]
    assert all(frame.pixels.shape == (HEIGHT, WIDTH, 3) for frame in frames)
    assert all(abs(frame.pixels.mean() - DARK) < 8 for frame in frames)
    known = [frame for frame in frames if frame.seq is not None]
    assert known
    assert [frame.seq for frame in known] == sorted({frame.seq for frame in known if frame.seq is not None})
    assert {(frame.epoch, frame.index) for frame in known} == {(1, 0)}
    arrivals = [frame.received_ns for frame in frames]
    assert arrivals == sorted(arrivals)


async def test_a_key_shows_from_its_own_action_on(client: RealtimeClient) -> None:
    assert (await client.next_frame(TIMEOUT_S)).pixels.mean() < MIDDLE
    assert (await first_frame_shaped_by(client, client.press("KeyW"))).pixels.mean() > MIDDLE
    assert client.keys == ("KeyW",)
    assert (await first_frame_shaped_by(client, client.release("KeyW"))).pixels.mean() < MIDDLE


async def test_a_reset_lets_no_older_frame_through(client: RealtimeClient) -> None:
    await client.next_frame(TIMEOUT_S)
    epoch = await client.reset({"seed": 3})
    assert epoch == 2
    frames = [await client.next_frame(TIMEOUT_S) for _ in range(3)]
    assert {frame.epoch for frame in frames} <= {2, None}


async def test_events_tell_of_pause_resume_and_refused_fields(client: RealtimeClient) -> None:
    async def hear(kind: str) -> dict[str, object]:
        while True:
            event = await client.next_event(TIMEOUT_S)
            if kind in (event.get("event"), event["type"]):
                return event

    await client.pause()
    assert (await hear("active_changed"))["active"] is False
    await client.resume()
    assert (await hear("active_changed"))["active"] is True
    client.set_fields(seed=1000)
    error = (await hear("error"))["error"]
    assert isinstance(error, dict)
    assert (error["code"], error["field"]) == ("bad_field", "seed")
    client.send("not JSON")
    assert (await hear("error"))["seq"] is None
    assert (await client.next_frame(TIMEOUT_S)).pixels.mean() < MIDDLE


async def test_closing_gives_the_place_back_and_ends_the_iterators(server: Running, client: RealtimeClient) -> None:
    seen = asyncio.Event()

    async def watch() -> None:
        async for _ in client.frames():
            seen.set()

    watching = asyncio.create_task(watch())
    await asyncio.wait_for(seen.wait(), TIMEOUT_S)
    assert client.session_id in server.sessions
    await client.close()
    await asyncio.wait_for(watching, TIMEOUT_S)
    assert server.sessions == set()
    with pytest.raises(ClientClosedError):
        await client.next_frame()
    with pytest.raises(ClientClosedError):
        client.press("KeyW")
    await client.close()


async def test_a_session_that_is_deleted_has_ended(client: RealtimeClient) -> None:
    await client.next_frame(TIMEOUT_S)
    async with httpx.AsyncClient(trust_env=False) as http:
        url = f"{client.base_url}api/sessions/{client.session_id}"
        await http.delete(url, headers={"Authorization": f"Bearer {client.session_token}"})
    assert isinstance(await outcome(client), SessionEndedError)
    with pytest.raises(SessionEndedError):
        client.press("KeyW")
    with pytest.raises(SessionEndedError):
        await client.reset()


async def test_a_fatal_failure_says_why(client: RealtimeClient) -> None:
    await client.next_frame(TIMEOUT_S)
    client.set_fields(explode=True)
    error = await outcome(client)
    assert isinstance(error, SessionEndedError)
    assert "the lamp is broken" in str(error)


async def test_a_server_that_stops_cannot_be_reached(server: Running, client: RealtimeClient) -> None:
    await client.next_frame(TIMEOUT_S)
    stopping = asyncio.create_task(asyncio.to_thread(server.stop))
    assert isinstance(await outcome(client), (UnreachableError, SessionEndedError))
    await stopping
    await client.close()


async def test_controls_without_pictures(server: Running) -> None:
    async with RealtimeClient.connect(server.url, transport="none") as client:
        client.press("KeyW")
        await client.pause()
        assert (await client.next_event(TIMEOUT_S))["type"] == "event"
        with pytest.raises(TimeoutError):
            await client.next_frame(0.05)


async def test_a_full_server_says_when_to_come_back(server: Running) -> None:
    async with (
        RealtimeClient.connect(server.url, transport="none"),
        RealtimeClient.connect(server.url, transport="none"),
    ):
        with pytest.raises(FullError) as caught:
            await RealtimeClient.connect(server.url, transport="none").open()
        assert caught.value.retry_after_s > 0
        assert len(server.sessions) == 2


@pytest.mark.parametrize("transport", ["webrtc", "mjpeg"])
async def test_a_client_watches_the_session_of_another(server: Running, transport: Transport) -> None:
    async with RealtimeClient.connect(server.url, transport="none") as owner:
        async with httpx.AsyncClient(base_url=server.url) as http:
            headers = {"Authorization": f"Bearer {owner.session_token}"}
            invited = await http.post(f"/api/sessions/{owner.session_id}/invitations", json={}, headers=headers)
        async with RealtimeClient.join(f"{server.url}{invited.json()['link']}", transport=transport) as viewer:
            assert viewer.session_id == owner.session_id
            await viewer.next_frame(TIMEOUT_S)
            viewer.press("KeyW")
            refused = await viewer.next_event(TIMEOUT_S)
            assert (refused["type"], refused["error"]["code"]) == ("error", "not_allowed")
            viewer.release("KeyW")
        assert server.sessions == {owner.session_id}


@pytest.mark.parametrize("transport", ["webrtc", "mjpeg"])
async def test_a_controller_sees_its_own_presses_and_takes_over(server: Running, transport: Transport) -> None:
    async with RealtimeClient.connect(server.url, transport="none") as owner:
        async with httpx.AsyncClient(base_url=server.url) as http:
            headers, role = {"Authorization": f"Bearer {owner.session_token}"}, {"role": "controller"}
            invited = await http.post(f"/api/sessions/{owner.session_id}/invitations", json=role, headers=headers)
        for _ in range(5):
            owner.release("KeyW")  # its numbers are ahead of those of the guest
        async with RealtimeClient.join(f"{server.url}{invited.json()['link']}", transport=transport) as guest:
            assert (owner.role, guest.role) == ("owner", "controller")
            frame = await first_frame_shaped_by(guest, guest.press("KeyW"))
            assert frame.pixels.mean() > MIDDLE
            assert not await guest.take_over()
            while (asked := await owner.next_event(TIMEOUT_S))["type"] != "takeover":
                pass
            await owner.answer_take_over(asked["member"], accept=True)
            while guest.role != "owner":
                await guest.next_event(TIMEOUT_S)
            assert await guest.take_over()
            await guest.reset()
            with pytest.raises(RefusedError, match="controller of the session may not"):
                await owner.reset()


@pytest.mark.parametrize("link", ["http://127.0.0.1:8000/", "127.0.0.1/?watch=x", "http://127.0.0.1/?watch="])
async def test_a_link_without_an_invitation_is_refused(link: str) -> None:
    with pytest.raises(ValueError, match="link must contain|base_url must be"):
        RealtimeClient.join(link)


async def test_a_client_waits_in_line(server: Running) -> None:
    async with RealtimeClient.connect(server.url, transport="none"):
        second = RealtimeClient.connect(server.url, transport="none")
        await second.open()
        waiting = RealtimeClient.connect(server.url, transport="none", queue_timeout_s=None)
        opening = asyncio.create_task(waiting.open())
        admission = server.app.state.runtime.admission
        while not admission.waiting:  # noqa: ASYNC110 - the server runs on another thread
            await asyncio.sleep(0.01)
        await second.close()
        await opening
        assert admission.waiting == 0
        await waiting.close()


async def test_a_client_that_stops_waiting_leaves_the_line(server: Running) -> None:
    async with (
        RealtimeClient.connect(server.url, transport="none"),
        RealtimeClient.connect(server.url, transport="none"),
    ):
        with pytest.raises(FullError, match="position 1 in the waiting line"):
            await RealtimeClient.connect(server.url, transport="none").open()
        assert server.app.state.runtime.admission.waiting == 0


async def test_a_bad_context_names_the_field(server: Running) -> None:
    with pytest.raises(RejectedError, match="seed") as caught:
        await RealtimeClient.connect(server.url, context={"seed": 1000}, transport="none").open()
    assert (caught.value.status, len(caught.value.errors)) == (422, 1)
    assert server.sessions == set()


async def test_a_server_with_a_token_wants_it() -> None:
    with Running(lamp(), token="correct horse") as server:
        with pytest.raises(RefusedError) as caught:
            await RealtimeClient.connect(server.url, transport="none").open()
        assert (caught.value.status, caught.value.code) == (401, "token")
        async with RealtimeClient.connect(server.url, transport="mjpeg", token="correct horse") as client:
            await client.next_frame(TIMEOUT_S)


async def test_nobody_at_the_address() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{unused.getsockname()[1]}"
    with pytest.raises(UnreachableError, match="127.0.0.1"):
        await RealtimeClient.connect(url).open()


async def test_a_link_that_does_not_come_up_gives_the_place_back(
    server: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    from realtime_engine.infra.webrtc import WebRtcReceiver

    async def forever(self: WebRtcReceiver) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(WebRtcReceiver, "channel_open", forever)
    with pytest.raises(TransportError, match="UDP blocked"):
        await RealtimeClient.connect(server.url, timeout_s=0.5).open()
    assert server.sessions == set()


async def test_a_cancelled_connect_gives_the_place_back(server: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    from realtime_engine.infra.webrtc import WebRtcReceiver

    waiting = asyncio.Event()

    async def forever(self: WebRtcReceiver) -> None:
        waiting.set()
        await asyncio.Event().wait()

    monkeypatch.setattr(WebRtcReceiver, "channel_open", forever)
    opening = asyncio.create_task(RealtimeClient.connect(server.url).open())
    await asyncio.wait_for(waiting.wait(), TIMEOUT_S)
    opening.cancel()
    with pytest.raises(asyncio.CancelledError):
        await opening
    assert server.sessions == set()


async def test_silence_means_that_the_server_has_gone(server: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    from realtime_engine.client.session import ClientSession

    monkeypatch.setattr(ClientSession, "_on_message", lambda self, text: None)
    async with RealtimeClient.connect(server.url, transport="mjpeg", silence_s=0.2) as client:
        assert isinstance(await outcome(client), TransportError)


async def test_used_before_it_is_open_or_twice(server: Running) -> None:
    client = RealtimeClient.connect(server.url, transport="none")
    with pytest.raises(ClientClosedError):
        client.press("KeyW")
    await client.close()
    async with client:
        with pytest.raises(ClientClosedError, match="opens only once"):
            await client.open()
        client.press("KeyW")


@pytest.mark.parametrize(("url", "transport"), [("127.0.0.1:8000", "webrtc"), ("http://127.0.0.1:8000", "smoke")])
def test_arguments_are_checked(url: str, transport: Transport) -> None:
    with pytest.raises(ValueError, match=r"base_url must|transport must"):
        RealtimeClient.connect(url, transport=transport)


def test_without_the_extra_it_says_what_to_install() -> None:
    """The module imports with NumPy alone; only connecting needs more."""
    script = (
        "import asyncio, sys\n"
        "sys.modules['httpx'] = None\n"
        "from realtime_engine.client import RealtimeClient\n"
        "assert 'aiortc' not in sys.modules and 'websockets' not in sys.modules\n"
        "asyncio.run(RealtimeClient.connect('http://127.0.0.1:1').open())\n"
    )
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=TIMEOUT_S)
    assert ended.stderr.splitlines()[-1].endswith("RealtimeClient needs httpx: pip install 'realtime-engine[serve]'")
