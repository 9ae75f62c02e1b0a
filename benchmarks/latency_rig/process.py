"""A server in a process of its own."""

from __future__ import annotations

import asyncio
import multiprocessing
import socket
from collections.abc import Awaitable, Callable
from multiprocessing.connection import Connection

import uvicorn

_START_S, _END_S = 30, 10


async def _nothing() -> None:
    pass


def run_until_told(
    server: uvicorn.Server,
    listener: socket.socket,
    pipe: Connection,
    close: Callable[[], Awaitable[None]] = _nothing,
) -> None:
    """Serve, send the port, and end, ``close`` included, when something comes down the pipe."""

    async def run() -> None:
        serving = asyncio.create_task(server.serve(sockets=[listener]))
        pipe.send(listener.getsockname()[1])
        await asyncio.to_thread(pipe.recv)
        await close()
        server.should_exit = True
        await serving

    asyncio.run(run())


class ServerProcess:
    """Starts ``main(pipe)``, which sends its port; context manager.

    Attributes:
        url: where it serves.
        model_ms: what it says of its model when it has ended.
    """

    def __init__(self, main: Callable[[Connection], None]) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(target=main, args=(theirs,), daemon=True)
        self.model_ms = 0.0

    def __enter__(self) -> ServerProcess:
        self._process.start()
        if not self._pipe.poll(_START_S):
            raise RuntimeError(f"a server did not start within {_START_S} s")
        self.url = f"http://127.0.0.1:{self._pipe.recv()}/"
        return self

    def __exit__(self, *exception: object) -> None:
        self._pipe.send("end")
        if self._pipe.poll(_END_S):
            self.model_ms = self._pipe.recv()
        self._process.join(_END_S)
        if self._process.is_alive():
            self._process.terminate()
