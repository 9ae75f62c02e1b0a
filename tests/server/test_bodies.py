from __future__ import annotations

import json
from typing import Any

import pytest

from .support import in_process


@pytest.mark.parametrize(
    "body",
    [
        {f"member{index}": 1 for index in range(10_000)},
        {"context": {f"field{index}": 1 for index in range(10_000)}},
        {"context": {"prompt": [[]] * 10_000}},
        [1] * 10_000,
    ],
)
async def test_a_body_of_very_many_values_is_refused_before_it_is_checked(body: Any) -> None:
    async with in_process() as served:
        response = await served.client.post("/api/sessions", json=body)
        assert response.status_code == 413 and len(response.content) < 1000


async def test_strings_may_be_long_whatever_they_hold() -> None:
    text = '\\",[{' * 15_000
    async with in_process() as served:
        await served.take(prompt=text)


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
async def test_a_refusal_is_short_whatever_was_sent(body: Any) -> None:
    async with in_process() as served:
        response = await served.client.post("/api/sessions", content=json.dumps(body))
        assert response.status_code == 422 and len(response.content) < 5000
        assert 1 <= len(response.json()["errors"]) <= 8
