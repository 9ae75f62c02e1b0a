from __future__ import annotations

import asyncio
import json
import logging
from typing import Any

import pytest

from .support import in_process, over_http, until


@pytest.mark.parametrize(
    "body",
    [
        {f"member{index}": 1 for index in range(10_000)},
        {"context": {f"field{index}": 1 for index in range(10_000)}},
        {"context": {"prompt": [[]] * 10_000}},
        [1] * 10_000,
    ],
)
async def test_a_body_with_too_many_values_is_refused_before_validation(body: Any) -> None:
    async with in_process() as served:
        response = await served.client.post("/api/sessions", json=body)
        assert response.status_code == 413 and len(response.content) < 1000


async def test_strings_may_be_long_whatever_they_contain() -> None:
    text = '\\",[{' * 15_000
    async with in_process() as served:
        await served.create(prompt=text)


@pytest.mark.parametrize(
    "body",
    [
        {f"member{index}": 1 for index in range(1000)},
        {"context": {f"field{index}": 1 for index in range(1000)}},
        {"x" * 1_000_000: 1},
        {"context": {"x" * 1_000_000: 1}},
        {"context": {"prompt": "x" * 1_000_000, "y": [1] * 1000}},
        [1] * 1000,
    ],
)
async def test_error_responses_are_short_whatever_was_sent(body: Any) -> None:
    async with in_process() as served:
        response = await served.client.post("/api/sessions", content=json.dumps(body))
        assert response.status_code == 422 and len(response.content) < 5000
        assert 1 <= len(response.json()["errors"]) <= 8


HEAD = b"POST /api/sessions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{"


async def test_a_body_that_does_not_arrive_times_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("realtime_engine.server.bodies._TIMEOUT_S", 0.05)
    async with over_http() as served:
        assert served.server is not None
        reader, writer = await asyncio.open_connection(*served.server.listener.getsockname())
        writer.write(HEAD)
        answer = await reader.read()  # until the server has closed it
        writer.close()
    assert answer.startswith(b"HTTP/1.1 408 ") and b"problem:too-slow" in answer


async def test_a_client_that_disconnects_during_its_body_is_not_an_error(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    seen: list[object] = []
    monkeypatch.setattr("realtime_engine.server.routes.sessions.check_access", lambda *args: seen.append(args))
    async with over_http() as served:
        assert served.server is not None
        _, writer = await asyncio.open_connection(*served.server.listener.getsockname())
        writer.write(HEAD)
        await until(lambda: seen)
        writer.close()
        await until(lambda: not served.server.server_state.tasks)  # type: ignore[union-attr]
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]
