"""The WebRTC viewers of one session."""

from __future__ import annotations

import asyncio
import functools
import json
import secrets
from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from typing import Any

from ...core.errors import RealtimeEngineError
from ...infra.telemetry.frame_latency import FrameLatencyTracker
from ...infra.video_input import VideoBuffer
from ...infra.webrtc import (
    IceConfig,
    PeerClosedError,
    PeerOptions,
    PublisherCloseReason,
    PublisherPeer,
    ReceivedPicture,
    SentFrame,
    SharedVideo,
    ViewerCloseReason,
    ViewerPeer,
    close_all,
)

Send = Callable[[str], object]


class ControlConnections:
    """The connections of one session that carry control messages, whatever their transport.

    Args:
        on_last_left: called when the last one has gone, so that nothing stays pressed.
    """

    def __init__(self, on_last_left: Callable[[], None]) -> None:
        self._on_last_left = on_last_left
        self._sends: dict[object, Send] = {}

    def __len__(self) -> int:
        return len(self._sends)

    def join(self, key: object, send: Send) -> None:
        """``send`` takes the text of a message, does not block and does not raise."""
        self._sends[key] = send

    def leave(self, key: object) -> None:
        """Nothing happens for one who has left already."""
        if self._sends.pop(key, None) is not None and not self._sends:
            self._on_last_left()

    def tell(self, message: Mapping[str, Any]) -> None:
        """Send a message to all."""
        text = json.dumps(message)
        for send in tuple(self._sends.values()):
            send(text)


_MAX_VIEWERS = 8


class TooManyViewers(RealtimeEngineError):
    """The session has as many viewers by WebRTC as it may have."""


class WebRtcViewers:
    """Takes viewers in and knows them by an id until they have gone.

    Args:
        video: what they watch.
        clients: each viewer is one of them, as long as it is connected.
        on_text: takes a control message, returns the replies.
        joiner: told of what each of them is sent.
    """

    def __init__(
        self,
        video: SharedVideo,
        clients: ControlConnections,
        on_text: Callable[[str], list[str]],
        ice: IceConfig,
        joiner: FrameLatencyTracker,
    ) -> None:
        self._video = video
        self._clients = clients
        self._on_text = on_text
        self._ice = ice
        self._joiner = joiner
        self._peers: dict[str, ViewerPeer] = {}
        self._negotiating = 0
        self._closed = False

    @property
    def connected(self) -> int:
        """Those that are sent video now."""
        return sum(peer.is_connected for peer in self._peers.values())

    def get(self, viewer_id: str) -> ViewerPeer | None:
        return self._peers.get(viewer_id)

    async def accept(self, offer: str) -> tuple[str, ViewerPeer]:
        """Answer an offer; returns the viewer and its id.

        Errors: :class:`TooManyViewers`; those of :meth:`ViewerPeer.from_offer`; ``PeerClosedError`` when the session
        ended meanwhile.
        """
        if len(self._peers) + self._negotiating >= _MAX_VIEWERS:
            raise TooManyViewers(f"at most {_MAX_VIEWERS} viewers watch one session by WebRTC")
        self._negotiating += 1
        try:
            return await self._accept(offer)
        finally:
            self._negotiating -= 1

    async def _accept(self, offer: str) -> tuple[str, ViewerPeer]:
        viewer_id = secrets.token_urlsafe(9)
        gone = asyncio.Event()

        def on_closed(reason: ViewerCloseReason) -> None:
            gone.set()
            self._forget(viewer_id)

        peer = await ViewerPeer.from_offer(
            offer,
            source=self._video,
            on_controls=self._on_text,
            on_closed=on_closed,
            on_sent=functools.partial(self._note_sent, viewer_id),
            options=PeerOptions(ice=self._ice),
        )
        if self._closed or gone.is_set():
            await peer.close()
            raise PeerClosedError("the session ended while its viewer was connecting")
        self._peers[viewer_id] = peer
        self._clients.join(viewer_id, peer.send)
        return viewer_id, peer

    async def close(self) -> None:
        """Hang up on all of them."""
        self._closed = True
        await close_all(self._peers.values())

    def _note_sent(self, viewer_id: str, sent: SentFrame) -> None:
        encoded = sent.encoded
        self._joiner.sent(
            viewer_id,
            "webrtc",
            encoded.id,
            paced_ns=encoded.paced_ns,
            encoded_ns=encoded.encoded_ns,
            sent_ns=sent.sent_ns,
        )

    def _forget(self, viewer_id: str) -> None:
        self._peers.pop(viewer_id, None)
        self._joiner.left(viewer_id)
        self._clients.leave(viewer_id)


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

        Errors: those of :meth:`PublisherPeer.from_offer`, with which everything stays as it was; ``PeerClosedError``
        when the session ended meanwhile.
        """
        async with self._negotiating:
            return await self._accept(offer)

    async def _accept(self, offer: str) -> tuple[str, PublisherPeer]:
        publisher_id = secrets.token_urlsafe(9)
        number = 0  # until its pictures count
        gone = asyncio.Event()

        def take(picture: ReceivedPicture) -> None:
            self._on_frame()
            self._video.put(number, picture.pixels, media_ns=picture.media_ns, arrived_ns=picture.arrived_ns)

        def closed(reason: PublisherCloseReason) -> None:
            gone.set()
            self._peers.pop(publisher_id, None)
            self._video.end_publisher(number)

        peer = await PublisherPeer.from_offer(
            offer,
            self._video.declared,
            on_picture=take,
            on_drop=self._video.drop,
            on_closed=closed,
            options=PeerOptions(ice=self._ice),
            pool=self._pool,
        )
        if self._closed or gone.is_set():
            await peer.close()
            raise PeerClosedError("the session ended while its publisher was connecting")
        replaced = list(self._peers.values())
        number = self._video.start_publisher()
        self._peers[publisher_id] = peer
        await close_all(replaced)
        return publisher_id, peer

    async def close(self) -> None:
        """Hang up on whoever sends."""
        self._closed = True
        await close_all(self._peers.values())
