"""What connections to viewers and to publishers have in common: how they are negotiated, and how they end, once."""

from __future__ import annotations

import asyncio
import enum
import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Iterable
from typing import Any, Generic, TypeVar

from aiortc import RTCPeerConnection, RTCRtpReceiver, RTCRtpSender, RTCSessionDescription

from .errors import BadCandidateError, BadOfferError, PeerClosedError
from .ice import IceConfig, parse_fragment, to_candidate

logger = logging.getLogger(__name__)

_MOST_CANDIDATES = 128

Reason = TypeVar("Reason", bound=enum.Enum)


async def packets_received(end: RTCRtpSender | RTCRtpReceiver) -> int:
    """From the other side, of any kind, so far."""
    stats = await end.getStats()
    return sum(entry.packetsReceived for entry in stats.values() if entry.type == "transport")


async def hang_up(peers: Iterable[RemotePeer[Any]]) -> None:
    """Close all of them, each whatever becomes of the others."""
    closing = list(peers)
    outcomes = await asyncio.gather(*(peer.close() for peer in closing), return_exceptions=True)
    for peer, outcome in zip(closing, outcomes, strict=True):
        if isinstance(outcome, BaseException):
            logger.error("a %s could not be hung up on", peer.who, exc_info=outcome)


class RemotePeer(ABC, Generic[Reason]):
    """The other end of one connection. All methods belong to the event loop that it was made on.

    Args:
        who: what to call it in messages.
        mid: the media section whose transport carries everything.
        ufrag: its ICE user name.
        on_closed: called once, when the connection has ended.
        server, gone, vanished: the reasons of a :meth:`close`, of the other end's good-bye, and of a broken connection.

    Attributes:
        answer: the SDP answer, once negotiated. who: see above.
    """

    def __init__(
        self,
        connection: RTCPeerConnection,
        who: str,
        *,
        mid: str,
        ufrag: str,
        on_closed: Callable[[Reason], None] | None,
        server: Reason,
        gone: Reason,
        vanished: Reason,
    ) -> None:
        self.answer = ""
        self._connection = connection
        self.who = who
        self._mid, self._ufrag = mid, ufrag
        self._on_closed = on_closed
        self._server, self._gone, self._vanished = server, gone, vanished
        self._candidates = 0
        self._closing: asyncio.Task[None] | None = None
        self._tasks: list[asyncio.Task[None]] = []
        connection.on("connectionstatechange", self._state_changed)

    @property
    def is_connected(self) -> bool:
        return self._connection.connectionState == "connected"

    async def add_candidate(self, fragment: str) -> None:
        """Take candidates that were found later (``application/trickle-ice-sdpfrag``, RFC 8840).

        Errors: ``BadCandidateError`` for a malformed fragment or an ICE restart, ``PeerClosedError``.
        """
        if self._closing is not None:
            raise PeerClosedError(f"this {self.who}'s connection is closed")
        parsed = parse_fragment(fragment)
        if parsed.ufrag not in (None, self._ufrag):
            raise BadCandidateError("ICE restart is not supported: the fragment has another ice-ufrag than the offer")
        self._candidates += len(parsed.candidates)
        if self._candidates > _MOST_CANDIDATES:
            raise BadCandidateError(f"at most {_MOST_CANDIDATES} candidates are taken from one {self.who}")
        for value in parsed.candidates:
            await self._connection.addIceCandidate(to_candidate(value, self._mid))

    async def close(self) -> None:
        """End the connection. May be called again; each call returns when it has ended."""
        await asyncio.shield(self._begin_close(self._server))

    async def _negotiate(self, sdp: str, ice: IceConfig) -> None:
        """Answer the offer, or leave nothing behind; then nobody is told that it has ended."""
        try:
            try:
                await self._connection.setRemoteDescription(RTCSessionDescription(sdp, "offer"))
            except Exception as error:  # aiortc names no common base for what it refuses
                raise BadOfferError(f"the SDP offer cannot be used: {error}") from error
            self._prepare()
            self.answer = await ice.answer(self._connection)
            self._begin()
        except BaseException:
            self._on_closed = None
            await self.close()
            raise

    @abstractmethod
    def _prepare(self) -> None:
        """Between the offer and the answer."""

    @abstractmethod
    def _begin(self) -> None:
        """After the answer."""

    def _state_changed(self) -> None:
        state = self._connection.connectionState
        if state == "closed":
            self._begin_close(self._gone)
        elif state == "failed":
            self._begin_close(self._vanished)

    def _let_go(self) -> None:
        """Before the connection is closed."""

    def _start(self, work: Coroutine[Any, Any, None], name: str) -> None:
        """Run ``work`` until the end at the latest."""
        self._tasks.append(asyncio.create_task(work, name=name))

    def _begin_close(self, reason: Reason) -> asyncio.Task[None]:
        if self._closing is None:
            self._closing = asyncio.create_task(self._close(reason), name=f"close a {self.who}")
        return self._closing

    async def _close(self, reason: Reason) -> None:
        for task in self._tasks:
            task.cancel()
        self._let_go()
        await self._connection.close()
        logger.info("a %s's connection ended: %s", self.who, reason.value)
        if self._on_closed is not None:
            try:
                self._on_closed(reason)
            except Exception:
                logger.exception("the callback that was told of a %s's end failed", self.who)
