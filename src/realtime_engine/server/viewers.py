"""The WebRTC viewers of one session."""

from __future__ import annotations

import asyncio
import functools
import secrets
from collections.abc import Callable

from ..core.errors import RealtimeEngineError
from ..infra.telemetry.frame_latency import FrameJoiner
from ..infra.webrtc import CloseReason, IceConfig, PeerClosedError, SentFrame, SharedVideo, ViewerPeer, hang_up
from .clients import Clients

_MOST_VIEWERS = 8


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
        clients: Clients,
        on_text: Callable[[str], list[str]],
        ice: IceConfig,
        joiner: FrameJoiner,
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

        Errors: :class:`TooManyViewers`; those of :meth:`ViewerPeer.accept`; ``PeerClosedError`` when the session ended
        meanwhile.
        """
        if len(self._peers) + self._negotiating >= _MOST_VIEWERS:
            raise TooManyViewers(f"at most {_MOST_VIEWERS} viewers watch one session by WebRTC")
        self._negotiating += 1
        try:
            return await self._accept(offer)
        finally:
            self._negotiating -= 1

    async def _accept(self, offer: str) -> tuple[str, ViewerPeer]:
        viewer_id = secrets.token_urlsafe(9)
        gone = asyncio.Event()

        def on_closed(reason: CloseReason) -> None:
            gone.set()
            self._forget(viewer_id)

        peer = await ViewerPeer.accept(
            offer,
            source=self._video,
            on_controls=self._on_text,
            on_closed=on_closed,
            on_sent=functools.partial(self._note_sent, viewer_id),
            ice=self._ice,
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
        await hang_up(self._peers.values())

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
