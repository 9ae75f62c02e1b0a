"""A connection that leaves nothing running when it is closed, whatever it was about."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

from aiortc import RTCConfiguration, RTCPeerConnection

logger = logging.getLogger(__name__)

_TRIES, _TRY_S = 40, 0.05
_CONNECT = "_RTCPeerConnection__connect"  # unchanged from aiortc 1.9 to 1.16


class Connection(RTCPeerConnection):
    """aiortc's, which forgets the task that connects it.

    When that goes on after a close, it starts consent checks or reports that nothing ends any more, or fails with
    nobody to hear it. So it is ended first.
    """

    def __init__(self, configuration: RTCConfiguration) -> None:
        super().__init__(configuration)
        self._connecting: set[asyncio.Task[Any]] = set()
        connect = getattr(self, _CONNECT, None)
        if not callable(connect):
            logger.warning("this version of aiortc has no %s: closing may leave tasks behind", _CONNECT)
            return

        async def connect_and_be_known() -> None:
            task = asyncio.current_task()
            assert task is not None
            self._connecting.add(task)
            try:
                await connect()
            finally:
                self._connecting.discard(task)

        setattr(self, _CONNECT, connect_and_be_known)

    async def close(self) -> None:
        """End it. May be called again."""
        tasks = self._connecting - {asyncio.current_task()}
        for _ in range(_TRIES):  # on its way through aioice a cancellation can get lost, and it would wait for a peer
            if not tasks:
                break
            for task in tasks:
                task.cancel()
            _, tasks = await asyncio.wait(tasks, timeout=_TRY_S)
        await super().close()
