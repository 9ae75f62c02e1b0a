"""Who sends video into one session: one at a time, the newest."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable
from concurrent.futures import Executor

from ..infra.video_input import VideoBuffer
from ..infra.webrtc import IceConfig, PeerClosedError, Picture, PublisherEnd, PublisherPeer, hang_up


class Publishers:
    """Takes publishers in and knows them by an id until they have gone.

    A second one replaces the first: whoever comes back after a loss is let in at once, and has the session's token.

    Args:
        video: where their pictures go.
        on_frame: called with each picture that has arrived, as a sign of life.
        pool: threads to convert pictures on.
    """

    def __init__(self, video: VideoBuffer, on_frame: Callable[[], None], ice: IceConfig, pool: Executor) -> None:
        self._video = video
        self._on_frame = on_frame
        self._ice = ice
        self._pool = pool
        self._peers: dict[str, PublisherPeer] = {}
        self._negotiating = asyncio.Lock()
        self._closed = False

    @property
    def current(self) -> str | None:
        """The id of whoever sends now."""
        return next(reversed(self._peers), None)

    def get(self, publisher_id: str) -> PublisherPeer | None:
        return self._peers.get(publisher_id)

    async def accept(self, offer: str) -> tuple[str, PublisherPeer]:
        """Answer an offer and hang up on whoever sent before; returns the publisher and its id.

        Errors: those of :meth:`PublisherPeer.accept`, with which everything stays as it was; ``PeerClosedError`` when
        the session ended meanwhile.
        """
        async with self._negotiating:
            return await self._accept(offer)

    async def _accept(self, offer: str) -> tuple[str, PublisherPeer]:
        publisher_id = secrets.token_urlsafe(9)
        number = 0  # until its pictures count
        gone = asyncio.Event()

        def take(picture: Picture) -> None:
            self._on_frame()
            self._video.put(number, picture.pixels, media_ns=picture.media_ns, arrived_ns=picture.arrived_ns)

        def closed(reason: PublisherEnd) -> None:
            gone.set()
            self._peers.pop(publisher_id, None)
            self._video.end(number)

        peer = await PublisherPeer.accept(
            offer,
            self._video.declared,
            on_picture=take,
            on_drop=self._video.drop,
            on_closed=closed,
            ice=self._ice,
            pool=self._pool,
        )
        if self._closed or gone.is_set():
            await peer.close()
            raise PeerClosedError("the session ended while its publisher was connecting")
        replaced = list(self._peers.values())
        number = self._video.begin()
        self._peers[publisher_id] = peer
        await hang_up(replaced)
        return publisher_id, peer

    async def close(self) -> None:
        """Hang up on whoever sends."""
        self._closed = True
        await hang_up(self._peers.values())
