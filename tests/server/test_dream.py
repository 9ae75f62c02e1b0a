"""A dream that fails to load: the server keeps running and reports the reason."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest
import torch

from realtime_engine.integrations.dream.demo import Options, demo
from realtime_engine.server import ServerConfig, create_app

from .support import until


@pytest.mark.parametrize(
    ("content", "text"),
    [(None, "does not exist"), (b"x" * 500, "is not a safetensors file or is damaged"), (b"", "or is damaged")],
)
async def test_unreadable_weights_are_reported_to_every_client(
    tmp_path: Path, content: bytes | None, text: str
) -> None:
    path = tmp_path / "broken.safetensors"
    if content is not None:
        path.write_bytes(content)
    options = Options(weights=path, threads=torch.get_num_threads())
    app = create_app(demo, ServerConfig(), options=options)
    async with app.router.lifespan_context(app):
        transport = httpx.ASGITransport(app, raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            await until(lambda: app.state.runtime.host.state.value != "loading")
            for address, method in (("/readyz", "GET"), ("/api/sessions", "POST")):
                answer = await client.request(method, address, json={} if method == "POST" else None)
                assert answer.status_code == 500
                assert str(path) in answer.json()["detail"] and text in answer.json()["detail"]
            described = (await client.get("/api/demo")).json()
            assert described["state"] == "failed" and text in described["error"]
            assert "train new ones with" in described["error"]
            assert (await client.get("/healthz")).status_code == 200
