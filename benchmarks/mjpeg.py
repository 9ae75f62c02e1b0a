"""How many can watch one session as Motion JPEG, what does it cost, and how old is the picture of a slow viewer?

A 640x360 source at 30 fps is paced, encoded and served by Starlette on uvicorn in one process; raw sockets watch it
from another. ``shared`` goes through realtime_engine.infra; ``baseline`` encodes for each viewer and listens on a
default socket. Ages run from the source to the last byte of a picture in the viewer's hands.

    python benchmarks/mjpeg.py [--viewers 0,1,10,50] [--seconds 3] [--json FILE]
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import multiprocessing
import re
import socket
import threading
import time
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from multiprocessing.connection import Connection

import numpy as np
import uvicorn
from starlette.applications import Starlette
from starlette.responses import StreamingResponse
from starlette.routing import Route

from realtime_engine.core.messages import Stamps
from realtime_engine.infra.frame import Frame, FrameId
from realtime_engine.infra.jpeg import JpegEncoder, JpegFrame, JpegPublisher
from realtime_engine.infra.mjpeg import HEADERS, MjpegStream, encode_part, listening_socket
from realtime_engine.infra.pacing import PacedPlayer, Pacer
from realtime_engine.infra.publisher import FramePublisher, PublisherClosed

WIDTH, HEIGHT, FPS = 640, 360, 30.0
MODES = ("shared", "baseline")
WARM_UP_S = 1.0
SLOW_BYTES_PER_S = 300_000
SLOW_SECONDS = 8.0
RECEIVE_BUFFERS = (None, 64 * 1024)


# -- the server's process


@dataclass
class Counters:
    """What the server's process has done up to now."""

    at_s: float
    cpu_s: float
    encode_cpu_s: float
    encodes: int
    frames: int


class TimedEncoder(JpegEncoder):
    """Counts encodes and the CPU seconds that they take."""

    def __init__(self) -> None:
        super().__init__()
        self._lock = threading.Lock()
        self.encodes = 0
        self.cpu_s = 0.0

    def encode(self, pixels: np.ndarray) -> bytes:
        begin = time.thread_time()
        data = super().encode(pixels)
        with self._lock:
            self.cpu_s += time.thread_time() - begin
            self.encodes += 1
        return data


def pictures(count: int = 30) -> list[np.ndarray]:
    """A coloured, textured scene that pans: about 40 kB as JPEG."""
    dice = np.random.default_rng(0)
    y, x = np.mgrid[:HEIGHT, : WIDTH + count * 8]
    scene = np.stack(
        [128 + 90 * np.sin(x / 37 + y / 91), 255 * y / HEIGHT, 128 + 90 * np.cos(x / 53 - y / 29)], axis=-1
    )
    scene += dice.normal(0, 9, scene.shape[:2])[..., np.newaxis]
    scene = scene.clip(0, 255).astype(np.uint8)
    return [np.ascontiguousarray(scene[:, 8 * n : 8 * n + WIDTH]) for n in range(count)]


class Source(threading.Thread):
    """An engine's stand-in: one frame of each 1/30 s, by absolute deadlines."""

    def __init__(self, player: PacedPlayer) -> None:
        super().__init__(daemon=True)
        self._player = player
        self._pictures = pictures()
        self._stop_asked = threading.Event()
        self.frames = 0

    def run(self) -> None:
        begin = time.monotonic()
        while not self._stop_asked.wait(max(begin + self.frames / FPS - time.monotonic(), 0)):
            pixels = self._pictures[self.frames % len(self._pictures)]
            stamps = Stamps(emitted=time.monotonic_ns())
            self._player.push([Frame(pixels, FrameId("bench", 1, self.frames, 0, None, stamps))])
            self.frames += 1

    def stop(self) -> None:
        self._stop_asked.set()
        self.join()


async def parts_with_an_encode_each(
    frames: FramePublisher, encoder: JpegEncoder, pool: ThreadPoolExecutor
) -> AsyncIterator[bytes]:
    """The baseline: whatever viewer it is, its frames are encoded for it."""
    loop = asyncio.get_running_loop()
    with contextlib.suppress(PublisherClosed), frames.subscribe() as viewer:
        while True:
            frame = await viewer.next()
            data = await loop.run_in_executor(pool, encoder.encode, frame.pixels)
            yield encode_part(JpegFrame(data, frame.id))


async def serve(mode: str, pipe: Connection) -> None:
    encoder = TimedEncoder()
    frames = FramePublisher()
    pool = ThreadPoolExecutor(2)
    player = PacedPlayer(Pacer(FPS), frames.publish)
    source = Source(player)
    mjpeg = MjpegStream(JpegPublisher(frames, encoder, pool))

    async def stream(request: object) -> StreamingResponse:
        parts = mjpeg.parts() if mode == "shared" else parts_with_an_encode_each(frames, encoder, pool)
        return StreamingResponse(parts, headers=HEADERS)

    app = Starlette(routes=[Route("/stream.mjpeg", stream)])
    server = uvicorn.Server(uvicorn.Config(app, log_level="error", access_log=False, timeout_graceful_shutdown=2))
    listener = listening_socket("127.0.0.1", 0) if mode == "shared" else socket.create_server(("127.0.0.1", 0))
    playing = asyncio.create_task(player.run())
    serving = asyncio.create_task(server.serve(sockets=[listener]))
    source.start()
    pipe.send(listener.getsockname()[1])
    while await asyncio.to_thread(pipe.recv):
        cpu_s = time.process_time()
        pipe.send(Counters(time.monotonic(), cpu_s, encoder.cpu_s, encoder.encodes, source.frames))
    source.stop()
    player.close()
    frames.close()
    server.should_exit = True
    await asyncio.gather(playing, serving)
    pool.shutdown()


def server_main(mode: str, pipe: Connection) -> None:
    asyncio.run(serve(mode, pipe))


class ServerProcess:
    """The server in a process of its own; ``counters()`` asks it what it has done."""

    def __init__(self, mode: str) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(target=server_main, args=(mode, theirs), daemon=True)
        self._process.start()
        self.port: int = self._pipe.recv()

    def counters(self) -> Counters:
        self._pipe.send(True)
        counters: Counters = self._pipe.recv()
        return counters

    def stop(self) -> None:
        self._pipe.send(False)
        self._process.join(10)
        if self._process.is_alive():
            self._process.terminate()


# -- the viewers' process


class PartReader:
    """Finds the ends of parts in a body and how old the pictures were then."""

    _HEAD = re.compile(rb"Content-Length: (\d+)\r\n(?:.*\r\n)*?X-Timestamp: ([\d.]+)\r\n\r\n")

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._end: int | None = None
        self._emitted_s = 0.0
        self.ages_s: list[float] = []

    def feed(self, data: bytes) -> None:
        self._buffer += data
        while True:
            if self._end is None:
                head = self._HEAD.search(self._buffer, 0, 4096)
                if head is None:
                    return
                self._end = head.end() + int(head[1])
                self._emitted_s = float(head[2])
            if len(self._buffer) < self._end:
                return
            self.ages_s.append(time.time() - self._emitted_s)
            del self._buffer[: self._end]
            self._end = None


REQUEST = b"GET /stream.mjpeg HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"


class Viewer(asyncio.Protocol):
    """Watches as fast as it can."""

    def __init__(self) -> None:
        self.parts = PartReader()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        transport.write(REQUEST)

    def data_received(self, data: bytes) -> None:
        self.parts.feed(data)


@dataclass
class Watched:
    """One row of the table."""

    mode: str
    viewers: int
    fps_mean: float
    fps_min: float
    cpu_percent: float
    encode_percent: float
    encodes_per_frame: float
    age_p50_ms: float
    age_p95_ms: float

    @property
    def over_encode_percent(self) -> float:
        return self.cpu_percent - self.encode_percent


async def watch(server: ServerProcess, mode: str, viewers: int, seconds: float) -> Watched:
    loop = asyncio.get_running_loop()
    watching = [(await loop.create_connection(Viewer, "127.0.0.1", server.port))[1] for _ in range(viewers)]
    await asyncio.sleep(WARM_UP_S)
    before, seen = server.counters(), [len(viewer.parts.ages_s) for viewer in watching]
    await asyncio.sleep(seconds)
    after, seen_after = server.counters(), [len(viewer.parts.ages_s) for viewer in watching]
    for viewer in watching:
        viewer.transport.abort()
    elapsed = after.at_s - before.at_s
    rates = [(end - begin) / elapsed for begin, end in zip(seen, seen_after, strict=True)]
    ages = [age for viewer, begin in zip(watching, seen, strict=True) for age in viewer.parts.ages_s[begin:]] or [0.0]
    return Watched(
        mode=mode,
        viewers=viewers,
        fps_mean=sum(rates) / viewers if viewers else 0.0,
        fps_min=min(rates, default=0.0),
        cpu_percent=100 * (after.cpu_s - before.cpu_s) / elapsed,
        encode_percent=100 * (after.encode_cpu_s - before.encode_cpu_s) / elapsed,
        encodes_per_frame=(after.encodes - before.encodes) / (after.frames - before.frames),
        age_p50_ms=1000 * float(np.percentile(ages, 50)),
        age_p95_ms=1000 * float(np.percentile(ages, 95)),
    )


@dataclass
class Slow:
    """A viewer that reads 300 kB/s: ages in the last half of its time.

    What waits unread in the viewer's own kernel is no server's to bound, so one viewer has the system's receive buffer,
    which grows, and one has a small one, as if the link were the bottleneck.
    """

    mode: str
    receive_buffer: str
    fps: float
    age_p50_ms: float
    age_max_ms: float


def watch_slowly(server: ServerProcess, mode: str, receive_bytes: int | None) -> Slow:
    parts = PartReader()
    ends: list[float] = []
    step_s = 0.01
    with socket.socket() as connection:
        if receive_bytes is not None:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes // 2)  # which the kernel doubles
        connection.settimeout(10)
        connection.connect(("127.0.0.1", server.port))
        connection.sendall(REQUEST)
        begin = time.monotonic()
        step = 0
        while (now := time.monotonic()) < begin + SLOW_SECONDS:
            step += 1
            parts.feed(connection.recv(round(SLOW_BYTES_PER_S * step_s)))
            ends.extend([now] * (len(parts.ages_s) - len(ends)))
            time.sleep(max(begin + step * step_s - time.monotonic(), 0))
    late = [age for age, end in zip(parts.ages_s, ends, strict=True) if end > begin + SLOW_SECONDS / 2]
    return Slow(
        mode=mode,
        receive_buffer="the system's" if receive_bytes is None else f"{receive_bytes // 1024} kB",
        fps=len(late) / (SLOW_SECONDS / 2),
        age_p50_ms=1000 * float(np.median(late)),
        age_max_ms=1000 * max(late),
    )


@contextlib.contextmanager
def serving(mode: str) -> Iterator[ServerProcess]:
    server = ServerProcess(mode)
    try:
        yield server
    finally:
        server.stop()


def measure(viewers: list[int], seconds: float) -> tuple[list[Watched], list[Slow]]:
    rows: list[Watched] = []
    slow: list[Slow] = []
    for mode in MODES:
        with serving(mode) as server:
            rows.extend(asyncio.run(watch(server, mode, count, seconds)) for count in viewers)
            with ThreadPoolExecutor(len(RECEIVE_BUFFERS)) as pool:
                slow.extend(
                    pool.map(lambda size, server=server, mode=mode: watch_slowly(server, mode, size), RECEIVE_BUFFERS)
                )
    return rows, slow


def print_table(rows: list[Watched], slow: list[Slow]) -> None:
    print(f"Motion JPEG, {WIDTH}x{HEIGHT} at {FPS:g} fps, quality 80; CPU in % of a core of the server's process")
    print("         viewers    fps  fps min    CPU  encode    rest  encodes/frame   age p50       p95")
    for row in rows:
        print(
            f"{row.mode:9}{row.viewers:7}{row.fps_mean:7.1f}{row.fps_min:9.1f}{row.cpu_percent:6.1f}%"
            f"{row.encode_percent:7.1f}%{row.over_encode_percent:7.1f}%{row.encodes_per_frame:15.2f}"
            f"{row.age_p50_ms:7.1f} ms{row.age_p95_ms:7.1f} ms"
        )
    for one in slow:
        print(
            f"{one.mode:9}a viewer at {SLOW_BYTES_PER_S // 1000} kB/s, receive buffer {one.receive_buffer:>12}, "
            f"after {SLOW_SECONDS / 2:g} s: {one.fps:.1f} fps, "
            f"age p50 {one.age_p50_ms:.0f} ms, max {one.age_max_ms:.0f} ms"
        )
    print("budget: rest <= 3 % with 1 viewer; 50 viewers at full rate on 1 encode a frame; age < 1000 ms at 300 kB/s")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--viewers", default="0,1,10,50", help="numbers of viewers, one row each")
    parser.add_argument("--seconds", type=float, default=3.0, help="how long each row is measured")
    parser.add_argument("--json", metavar="FILE", help="write the numbers there")
    options = parser.parse_args()
    rows, slow = measure([int(count) for count in options.viewers.split(",")], options.seconds)
    print_table(rows, slow)
    if options.json:
        report = {"rows": [asdict(row) | {"over_encode_percent": row.over_encode_percent} for row in rows]}
        report["slow"] = [asdict(one) for one in slow]
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump(report, file, indent=2)


if __name__ == "__main__":
    main()
