"""The lobby over HTTP: what runs, small pictures of it, and links to watch it."""

from __future__ import annotations

import io

import pytest
from PIL import Image

from ..support import PaintEngine, frame_where, in_process, paint_demo

TYPE = "urn:realtime-engine:problem:"


async def test_the_lobby_shows_what_runs() -> None:
    async with in_process() as served:
        empty = (await served.client.get("/api/lobby")).json()
        assert empty == {"capacity": 2, "occupied": 0, "waiting": 0, "sessions": []}
        owned = await served.create()
        lobby = (await served.client.get("/api/lobby")).json()
        assert lobby["occupied"] == 1
        (shown,) = lobby["sessions"]
        assert (shown["session_id"], shown["viewers"]) == (owned.id, 0)
        assert "token" not in str(lobby)


async def test_a_thumbnail_is_a_small_picture() -> None:
    async with in_process() as served:
        owned = await served.create(seed=5)
        await frame_where(served.session(owned), lambda color: True)
        (shown,) = (await served.client.get("/api/lobby")).json()["sessions"]
        picture = await served.client.get(shown["links"]["thumbnail"])
        assert picture.headers["content-type"] == "image/jpeg"
        image = Image.open(io.BytesIO(picture.content))
        assert image.size == (64, 48)
        idle_s = (await owned.request("GET", "self")).json()["idle_s"]
        assert idle_s > 0, "a thumbnail does not count as watching"


async def test_a_client_of_the_lobby_watches() -> None:
    async with in_process() as served:
        owned = await served.create()
        (shown,) = (await served.client.get("/api/lobby")).json()["sessions"]
        links = [(await served.client.post(shown["links"]["invitations"])).json() for _ in range(2)]
        assert links[0] == links[1] and links[0]["link"] == f"?watch={links[0]['token']}"
        joined = await served.client.post("/api/invitations", json={"token": links[0]["token"]})
        assert (joined.status_code, joined.json()["session_id"], joined.json()["role"]) == (201, owned.id, "viewer")
        invitations = f"{owned.links['self']}/invitations"
        (public,) = (await served.client.get(invitations, headers=owned.auth)).json()["invitations"]
        await served.client.delete(f"{invitations}/{public['id']}", headers=owned.auth)
        refused = await served.client.post(shown["links"]["invitations"])
        assert (refused.status_code, refused.json()["type"]) == (410, TYPE + "invitation-over")


@pytest.mark.parametrize(
    ("lobby", "takes_video", "is_open"),
    [("auto", False, True), ("auto", True, False), ("on", True, True), ("off", False, False)],
)
async def test_the_lobby_may_be_closed(lobby: str, takes_video: bool, is_open: bool) -> None:
    demo = paint_demo(PaintEngine(max_sessions=2), video_input=takes_video)
    async with in_process(demo, lobby=lobby) as served:
        owned = await served.create()
        assert bool((await served.client.get("/api/lobby")).json()["sessions"]) == is_open
        invited = await served.client.post(f"/api/lobby/{owned.id}/invitations")
        assert invited.status_code == (201 if is_open else 404)
        thumbnail = await served.client.get(f"/api/lobby/{owned.id}/thumbnail.jpg")
        assert (b"in the lobby" in thumbnail.content) != is_open


async def test_the_lobby_of_a_server_with_a_token_requires_it() -> None:
    async with in_process(token="correct horse") as served:
        for path in ("/api/lobby", "/api/lobby/x/thumbnail.jpg"):
            assert (await served.client.get(path)).status_code == 401
        assert (await served.client.post("/api/lobby/x/invitations")).status_code == 401
