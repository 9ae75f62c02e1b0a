"""The connections of one session: control connections, WebRTC viewers and WebRTC publishers."""

from __future__ import annotations

import asyncio
import functools
import json
import secrets
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from typing import Any

from ...core.errors import RealtimeEngineError
from ...infra.frame import FrameId
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
    frame_text,
)
from ..counters import Counts
from .access import Member

Send = Callable[[str], object]

_MAX_VIEWERS = 64


class ControlConnections:
    """The control connections of one session, over all transports.

    Args:
        on_connected: called with each member when its first connection is added (true) and after its last is removed.
        greeting: returns the messages that a new connection of a member starts with.
    """

    def __init__(
        self,
        on_connected: Callable[[Member, bool], None],
        greeting: Callable[[Member], Sequence[Mapping[str, Any]]],
    ) -> None:
        self._on_connected = on_connected
        self._greeting = greeting
        self._sends: dict[object, tuple[Member, Send]] = {}

    def __len__(self) -> int:
        return len(self._sends)

    @property
    def members(self) -> set[Member]:
        """The members that are connected."""
        return {member for member, _ in self._sends.values()}

    def add(self, key: object, send: Send, member: Member) -> None:
        """Add a connection.

        Args:
            key: identifies the connection.
            send: sends a text message; it must neither block nor raise.
            member: whose connection it is.
        """
        is_first = member not in self.members
        self._sends[key] = member, send
        if is_first:
            self._on_connected(member, True)
        for message in self._greeting(member):
            send(json.dumps(message))

    def remove(self, key: object) -> None:
        """Remove a connection. Idempotent."""
        member, _ = self._sends.pop(key, (None, None))
        if member is not None and member not in self.members:
            self._on_connected(member, False)

    def broadcast(self, message: Mapping[str, Any], to: Member | None = None) -> None:
        """Send a message to all connections, or to those of one member."""
        text = json.dumps(message)
        for member, send in tuple(self._sends.values()):
            if to is None or member is to:
                send(text)


class TooManyViewers(RealtimeEngineError):
    """The session has as many WebRTC viewers as it may have."""


class WebRtcViewers:
    """The WebRTC viewers of one session, by id.

    Args:
        video: the video that they watch.
        connections: each viewer is one of the control connections while it is connected.
        ice: the ICE settings.
        latency: informed of each frame sent.
    """

    def __init__(
        self,
        video: SharedVideo,
        connections: ControlConnections,
        ice: IceConfig,
        latency: FrameLatencyTracker,
    ) -> None:
        self._video = video
        self._connections = connections
        self._ice = ice
        self._latency = latency
        self._peers: dict[str, ViewerPeer] = {}
        self._negotiating = 0
        self._closing: set[asyncio.Task[None]] = set()
        self._closed = False

    @property
    def connected(self) -> int:
        """Viewers that video is sent to now."""
        return sum(peer.is_connected for peer in self._peers.values())

    def get(self, viewer_id: str) -> ViewerPeer | None:
        """The viewer with this id; ``None`` if there is none."""
        return self._peers.get(viewer_id)

    async def add(self, offer: str, *, on_text: Callable[[str], list[str]], member: Member) -> tuple[str, ViewerPeer]:
        """Answer an SDP offer; returns the new viewer and its id.

        Args:
            offer: the offer.
            on_text: handles a control message of the viewer and returns the replies.
            member: who watches.

        Raises:
            TooManyViewers: the session has as many viewers as it may have.
            PeerClosedError: the session ended during the negotiation.
            WebRtcError: as :meth:`ViewerPeer.from_offer`.
        """
        if len(self._peers) + self._negotiating >= _MAX_VIEWERS:
            raise TooManyViewers(f"a session has at most {_MAX_VIEWERS} WebRTC viewers")
        self._negotiating += 1
        try:
            return await self._negotiate(offer, on_text, member)
        finally:
            self._negotiating -= 1

    async def close(self) -> None:
        """Close all viewers."""
        self._closed = True
        await close_all(self._peers.values())

    async def _negotiate(
        self, offer: str, on_text: Callable[[str], list[str]], member: Member
    ) -> tuple[str, ViewerPeer]:
        viewer_id = secrets.token_urlsafe(9)
        closed = asyncio.Event()

        def on_closed(reason: ViewerCloseReason) -> None:
            closed.set()
            self._remove(viewer_id)
            member.closers.pop(viewer_id, None)

        def text_of(rtp: int, frame: FrameId) -> str:
            return frame_text(rtp, frame.seen_by(member.frame_slot))

        peer = await ViewerPeer.from_offer(
            offer,
            source=self._video,
            on_controls=on_text,
            on_closed=on_closed,
            on_sent=functools.partial(self._on_sent, viewer_id, member),
            message=text_of,
            options=PeerOptions(ice=self._ice),
        )
        if self._closed or closed.is_set():
            await peer.close()
            raise PeerClosedError("the session ended while its viewer was connecting")
        self._peers[viewer_id] = peer
        member.closers[viewer_id] = lambda: self._close_soon(peer)
        self._connections.add(viewer_id, peer.send, member)
        return viewer_id, peer

    def _close_soon(self, peer: ViewerPeer) -> None:
        task = asyncio.create_task(peer.close())
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)

    def _on_sent(self, viewer_id: str, member: Member, sent: SentFrame) -> None:
        encoded = sent.encoded
        self._latency.sent(
            viewer_id,
            "webrtc",
            encoded.id.seen_by(member.frame_slot),
            paced_ns=encoded.paced_ns,
            encoded_ns=encoded.encoded_ns,
            sent_ns=sent.sent_ns,
        )

    def _remove(self, viewer_id: str) -> None:
        self._peers.pop(viewer_id, None)
        self._latency.left(viewer_id)
        self._connections.remove(viewer_id)


class Publishers:
    """The WebRTC publishers of one session, by id.

    A new publisher replaces the current one, so that a client that lost its connection can reconnect at once.

    Args:
        video: takes their pictures.
        on_frame: called for each picture that arrives.
        ice: the ICE settings.
        pool: threads that convert pictures.

    Attributes:
        video: the pictures that the model can see.
    """

    def __init__(self, video: VideoBuffer, on_frame: Callable[[], None], ice: IceConfig, pool: Executor) -> None:
        self.video = video
        self._on_frame = on_frame
        self._ice = ice
        self._pool = pool
        self._peers: dict[str, PublisherPeer] = {}
        self._negotiating = asyncio.Lock()
        self._closed = False

    @property
    def current(self) -> str | None:
        """The id of the publisher whose video is used; ``None`` without one."""
        return next(reversed(self._peers), None)

    def get(self, publisher_id: str) -> PublisherPeer | None:
        """The publisher with this id; ``None`` if there is none."""
        return self._peers.get(publisher_id)

    def counts(self) -> Counts:
        """Totals of the video received."""
        statistics = self.video.statistics()
        return Counts(video_received=statistics.received, video_dropped=statistics.dropped)

    async def add(self, offer: str) -> tuple[str, PublisherPeer]:
        """Answer an SDP offer and close the current publisher; returns the new one and its id.

        Raises:
            PeerClosedError: the session ended during the negotiation.
            WebRtcError: as :meth:`PublisherPeer.from_offer`; the current publisher stays.
        """
        async with self._negotiating:
            return await self._negotiate(offer)

    async def close(self) -> None:
        """Close the publisher."""
        self._closed = True
        await close_all(self._peers.values())

    async def _negotiate(self, offer: str) -> tuple[str, PublisherPeer]:
        publisher_id = secrets.token_urlsafe(9)
        number = 0  # until its pictures count
        closed = asyncio.Event()

        def on_picture(picture: ReceivedPicture) -> None:
            self._on_frame()
            self.video.put(number, picture.pixels, media_ns=picture.media_ns, arrived_ns=picture.arrived_ns)

        def on_closed(reason: PublisherCloseReason) -> None:
            closed.set()
            self._peers.pop(publisher_id, None)
            self.video.end_publisher(number)

        peer = await PublisherPeer.from_offer(
            offer,
            self.video.declared,
            on_picture=on_picture,
            on_drop=self.video.drop,
            on_closed=on_closed,
            options=PeerOptions(ice=self._ice),
            pool=self._pool,
        )
        if self._closed or closed.is_set():
            await peer.close()
            raise PeerClosedError("the session ended while its publisher was connecting")
        replaced = list(self._peers.values())
        number = self.video.start_publisher()
        self._peers[publisher_id] = peer
        await close_all(replaced)
        return publisher_id, peer
