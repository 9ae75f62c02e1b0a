"""What connections to viewers and to publishers have in common: how they are negotiated, and how they end, once."""

from __future__ import annotations

import asyncio
import enum
import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Iterable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from aiortc import RTCPeerConnection, RTCRtpReceiver, RTCRtpSender, RTCSessionDescription

from ...core.clock import NS_PER_S
from .errors import BadCandidateError, BadOfferError, PeerClosedError
from .ice import IceConfig, parse_fragment, to_candidate

logger = logging.getLogger(__name__)

_MAX_CANDIDATES = 128

Reason = TypeVar("Reason", bound=enum.Enum)


async def packets_received(end: RTCRtpSender | RTCRtpReceiver) -> int:
    """From the other side, of any kind, so far."""
    stats = await end.getStats()
    return sum(entry.packetsReceived for entry in stats.values() if entry.type == "transport")


async def close_all(peers: Iterable[RemotePeer[Any]]) -> None:
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
        if self._candidates > _MAX_CANDIDATES:
            raise BadCandidateError(f"at most {_MAX_CANDIDATES} candidates are taken from one {self.who}")
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


@dataclass(frozen=True)
class PeerTimeouts:
    """How long a viewer may be silent, in seconds.

    Attributes:
        connect_s: from the answer to the connection.
        silence_s: from the first frame that it did not answer. Receivers report every second or so (RFC 3550), and a
            network that is gone for 5 s, as when a phone changes cells, should not end the connection.
    """

    connect_s: float = 15.0
    silence_s: float = 6.0

    @property
    def poll_s(self) -> float:
        """How often to look, so that a vanished viewer is noticed within 1.2 times the limit."""
        return min(self.connect_s, self.silence_s) / 8


class Liveness:
    """Decides from counters, without a clock or a connection of its own.

    A viewer that is sent nothing owes no answer: nothing is held against it while the source rests.
    """

    def __init__(self, timeouts: PeerTimeouts, now_ns: int) -> None:
        self._timeouts = timeouts
        self._begun_ns = now_ns
        self._received = 0
        self._sent = 0
        self._unanswered_ns: int | None = None

    def has_vanished(self, now_ns: int, *, connected: bool, sent: int, received: int) -> bool:
        """Whether to give up.

        Args:
            sent: frames sent so far.
            received: packets received from the viewer so far, of any kind.
        """
        if not connected:
            return now_ns - self._begun_ns > self._timeouts.connect_s * NS_PER_S
        if received > self._received:
            self._received = received
            self._unanswered_ns = None
        elif self._unanswered_ns is None and sent > self._sent:
            self._unanswered_ns = now_ns
        self._sent = sent
        return self._unanswered_ns is not None and now_ns - self._unanswered_ns > self._timeouts.silence_s * NS_PER_S
