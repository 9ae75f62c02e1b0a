"""Watches the scene, in its own process: prints an offer, reads the answer, and prints a thumbnail per picture."""

from __future__ import annotations

import asyncio
import json
import logging
import sys
from typing import Any

from realtime_engine.infra.encoding import Codec
from realtime_engine.infra.webrtc import PeerClosedError, WebRtcReceiver

from .scene_picture import thumbnail


def write(**record: Any) -> None:
    sys.stdout.write(json.dumps(record) + "\n")
    sys.stdout.flush()


async def main(codec: str) -> None:
    receiver = WebRtcReceiver(codecs=[Codec[codec]])
    write(offer=await receiver.offer())
    await receiver.set_answer(json.loads(await asyncio.to_thread(sys.stdin.readline)))
    try:
        while True:
            frame = await receiver.next_frame()
            write(rtp=frame.rtp, t=frame.received_ns, thumbnail=thumbnail(frame.luma()))
    except PeerClosedError as error:
        write(lost=str(error))


if __name__ == "__main__":
    logging.basicConfig(level=logging.WARNING)
    asyncio.run(main(sys.argv[1]))
