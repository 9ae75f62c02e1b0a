"""A viewer in a process of its own: prints an offer, reads an answer, and prints a line for its first frames."""

from __future__ import annotations

import asyncio
import json
import sys

from realtime_engine.infra.webrtc import WebRtcReceiver


async def main() -> None:
    receiver = WebRtcReceiver()
    _say(await receiver.offer())
    await receiver.set_answer(json.loads(await asyncio.to_thread(sys.stdin.readline)))
    while True:
        frame = await receiver.next_frame()
        _say(f"frame of {frame.image.width}x{frame.image.height}")


def _say(text: str) -> None:
    sys.stdout.write(json.dumps(text) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    asyncio.run(main())
