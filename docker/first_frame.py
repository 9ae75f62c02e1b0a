"""Check a running demo server: wait until its model is ready, open a session, print the size of its first frame.

    docker compose -f docker/compose.cpu.yml exec -T demo python - < docker/first_frame.py

The port and the token are those of the server: REALTIME_ENGINE_PORT, and REALTIME_ENGINE_TOKEN or
REALTIME_ENGINE_TOKEN_FILE.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from pathlib import Path

import httpx

from realtime_engine.client import RealtimeClient

_TIMEOUT_S = 120.0
_INTERVAL_S = 0.5


def token() -> str | None:
    path = os.environ.get("REALTIME_ENGINE_TOKEN_FILE")
    return os.environ.get("REALTIME_ENGINE_TOKEN") if path is None else Path(path).read_text(encoding="utf-8").strip()


def wait_until_ready(url: str) -> None:
    """Raises TimeoutError with the last answer of /readyz."""
    deadline = time.monotonic() + _TIMEOUT_S
    while True:
        try:
            answer = httpx.get(f"{url}/readyz", timeout=_TIMEOUT_S, trust_env=False)
        except httpx.TransportError as error:
            state = str(error)
        else:
            if answer.status_code == httpx.codes.OK:
                return
            state = answer.text
        if time.monotonic() > deadline:
            raise TimeoutError(f"not ready after {_TIMEOUT_S:g} s: {state}")
        time.sleep(_INTERVAL_S)


async def first_frame(url: str) -> str:
    async with RealtimeClient.connect(url, transport="mjpeg", token=token()) as client:
        height, width = (await client.next_frame(_TIMEOUT_S)).pixels.shape[:2]
        return f"{width} x {height}"


if __name__ == "__main__":
    server = f"http://127.0.0.1:{os.environ.get('REALTIME_ENGINE_PORT', '8000')}"
    wait_until_ready(server)
    sys.stdout.write(f"first frame: {asyncio.run(first_frame(server))}\n")
