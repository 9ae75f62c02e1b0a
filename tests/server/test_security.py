from __future__ import annotations

import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus

from .support import in_process, over_http


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:80", "127.0.0.1:8000", "[::1]:8000", "friend.example:1"])
async def test_loopback_names_and_allowed_origins_are_accepted(host: str) -> None:
    async with in_process(allowed_origins=("https://friend.example",)) as served:
        assert (await served.client.get("/healthz", headers={"Host": host})).status_code == 200


@pytest.mark.parametrize("host", ["evil.example", "localhost.evil.example:8000", "[::1", "", "127.0.0.1@evil.example"])
async def test_a_rebound_host_name_is_refused(host: str) -> None:
    async with in_process() as served:
        refused = await served.client.post("/api/sessions", json={}, headers={"Host": host})
        assert (refused.status_code, refused.json()["type"]) == (403, "urn:realtime-engine:problem:host")


async def test_a_websocket_for_another_host_name_is_refused() -> None:
    async with over_http() as served:
        assert served.server is not None
        host, port = served.server.listener.getsockname()
        url = (await served.create()).url("controls", "ws").replace(host, "evil.example")
        with pytest.raises(InvalidStatus) as refused:
            await connect(url, host=host, port=port, additional_headers={"Origin": f"http://evil.example:{port}"})
        assert refused.value.response.status_code == 403


@pytest.mark.parametrize("config", [{"token": "open sesame"}, {"host": "0.0.0.0", "open": True}])
async def test_other_addresses_accept_any_host_name(config: dict[str, object]) -> None:
    async with in_process(**config) as served:
        assert (await served.client.get("/healthz", headers={"Host": "demo.example"})).status_code == 200
