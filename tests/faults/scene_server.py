"""Serves the scene to one viewer, in its own process: reads an offer, prints the answer and what is sent.

The argument is JSON: ``codec``, ``bitrate``, ``udp_ports``, ``public_address``, ``relay_only`` and ``servers`` (url,
user, password each).
"""

from __future__ import annotations

import asyncio
import json
import logging
import sys
import time
from typing import Any

from realtime_engine.infra.encoding import Codec
from realtime_engine.infra.frame import Frame, FrameId
from realtime_engine.infra.publisher import FramePublisher
from realtime_engine.infra.webrtc import (
    IceConfig,
    IceServer,
    NoCandidatesError,
    PeerOptions,
    SharedVideo,
    UdpPorts,
    ViewerPeer,
)

from .scene_picture import FPS, ScenePictures

_REPORT_S = 0.1


def write(**record: Any) -> None:
    sys.stdout.write(json.dumps(record) + "\n")
    sys.stdout.flush()


async def show(source: FramePublisher) -> None:
    """Publish a picture each frame interval; its identity has the time of publication."""
    pictures = ScenePictures()
    loop = asyncio.get_running_loop()
    started = loop.time()
    number = 0
    while True:
        shown = time.monotonic_ns()
        source.publish(Frame(pictures[number], FrameId("scene", 1, number, 0, str(shown))))
        number += 1
        await asyncio.sleep(started + number / FPS - loop.time())


async def report(peer: ViewerPeer) -> None:
    while True:
        stats = await peer._sender.getStats()
        sent = sum(entry.bytesSent for entry in stats.values() if entry.type == "transport")
        write(sent_bytes=sent, t=time.monotonic_ns())
        await asyncio.sleep(_REPORT_S)


def report_sent(rtp: int, frame_id: FrameId) -> None:
    """Print the identity instead of sending it to the viewer, whose data channel is impaired too."""
    write(rtp=rtp, seq=frame_id.seq, shown=int(frame_id.action_id or 0))


async def main(options: dict[str, Any]) -> None:
    ports = options.get("udp_ports")
    ice = IceConfig(
        [IceServer(*server) for server in options.get("servers", ())],
        relay_only=options.get("relay_only", False),
        udp_ports=ports and UdpPorts.parse(ports),
        public_address=options.get("public_address"),
    )
    source = FramePublisher()
    video = SharedVideo(source, fps=FPS, bitrate=options.get("bitrate"))
    write(ready=True)
    lines = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
    offer = json.loads(await lines.readline())
    started = time.monotonic()
    codecs = [Codec[options.get("codec", "VP8")]]
    closed = asyncio.Event()
    try:
        peer = await ViewerPeer.from_offer(
            offer,
            source=video,
            on_controls=lambda text: [text],
            on_closed=lambda reason: (write(closed=reason.value), closed.set())[0],
            codecs=codecs,
            options=PeerOptions(ice=ice),
            message=report_sent,
        )
    except NoCandidatesError as error:
        write(refused=str(error), took_s=time.monotonic() - started)
        return
    write(answer=peer.answer, took_s=time.monotonic() - started)
    tasks = [asyncio.create_task(show(source)), asyncio.create_task(report(peer))]
    await lines.read()  # until the test is over
    for task in tasks:
        task.cancel()
    await peer.close()


if __name__ == "__main__":
    logging.basicConfig(level=logging.WARNING)
    asyncio.run(main(json.loads(sys.argv[1])))
