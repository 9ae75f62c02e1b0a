"""The base of connections to viewers and publishers: negotiation, trickled candidates, timeouts and closing."""

from __future__ import annotations

import asyncio
import enum
import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Iterable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from aiortc import RTCRtpReceiver, RTCRtpSender, RTCSessionDescription

from ...core.clock import MONOTONIC, NS_PER_S, Clock
from .errors import BadCandidateError, BadOfferError, PeerClosedError
from .ice import IceConfig, parse_fragment, to_candidate

logger = logging.getLogger(__name__)

_MAX_CANDIDATES = 128

Reason = TypeVar("Reason", bound=enum.Enum)


@dataclass(frozen=True)
class PeerTimeouts:
    """How long the other side of a connection may be silent, in seconds.

    Attributes:
        connect_s: from the answer to the connection.
        silence_s: from the first frame without a response. Receivers report about once a second (RFC 3550), and a
            network outage of 5 s, as when a phone changes cells, should not end the connection.
    """

    connect_s: float = 15.0
    silence_s: float = 6.0

    @property
    def poll_s(self) -> float:
        """Interval of the checks, so that a vanished peer is detected within 1.2 times the limit."""
        return min(self.connect_s, self.silence_s) / 8


@dataclass(frozen=True)
class PeerOptions:
    """Settings of a connection.

    Attributes:
        ice: addresses and servers; by default only this machine's own addresses.
        timeouts: when a silent peer is disconnected.
        clock: measures timeouts and stamps received frames.
    """

    ice: IceConfig = IceConfig()
    timeouts: PeerTimeouts = PeerTimeouts()
    clock: Clock = MONOTONIC


@dataclass(frozen=True)
class CloseReasons(Generic[Reason]):
    """The reason to report for each way in which a connection ends.

    Attributes:
        server: :meth:`RemotePeer.close` was called.
        peer: the other side closed it.
        failure: it failed.
    """

    server: Reason
    peer: Reason
    failure: Reason


class RemotePeer(ABC, Generic[Reason]):
    """The other end of one connection. All methods belong to the event loop on which it was made.

    Args:
        role: what it is called in messages.
        mid: the media section whose transport carries the bundle.
        ufrag: its ICE user name fragment.
        on_closed: called once, when the connection has ended.
        reasons: see there.
        options: settings of the connection.

    Attributes:
        answer: the SDP answer, once negotiated.
        role: see above.
    """

    def __init__(
        self,
        role: str,
        *,
        mid: str,
        ufrag: str,
        on_closed: Callable[[Reason], None] | None,
        reasons: CloseReasons[Reason],
        options: PeerOptions,
    ) -> None:
        self.answer = ""
        self.role = role
        self._connection = options.ice.create_connection()
        self._mid, self._ufrag = mid, ufrag
        self._on_closed = on_closed
        self._reasons = reasons
        self._options = options
        self._clock = options.clock
        self._candidates = 0
        self._closing: asyncio.Task[None] | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._connection.on("connectionstatechange", self._on_state_change)

    @property
    def is_connected(self) -> bool:
        """Whether media can flow."""
        return self._connection.connectionState == "connected"

    async def add_candidate(self, fragment: str) -> None:
        """Add trickled candidates (``application/trickle-ice-sdpfrag``, RFC 8840).

        Raises:
            BadCandidateError: a malformed fragment or an ICE restart.
            PeerClosedError: the connection is closed.
        """
        if self._closing is not None:
            raise PeerClosedError(f"this {self.role}'s connection is closed")
        parsed = parse_fragment(fragment)
        if parsed.ufrag not in (None, self._ufrag):
            raise BadCandidateError("ICE restart is not supported: the fragment has another ice-ufrag than the offer")
        self._candidates += len(parsed.candidates)
        if self._candidates > _MAX_CANDIDATES:
            raise BadCandidateError(f"at most {_MAX_CANDIDATES} candidates are accepted from one {self.role}")
        for value in parsed.candidates:
            await self._connection.addIceCandidate(to_candidate(value, self._mid))

    async def close(self) -> None:
        """End the connection. Idempotent; each call returns when it has ended."""
        await asyncio.shield(self._start_close(self._reasons.server))

    async def _negotiate(self, sdp: str) -> None:
        """Answer the offer. After a failure the connection is closed, and ``on_closed`` is not called."""
        try:
            try:
                await self._connection.setRemoteDescription(RTCSessionDescription(sdp, "offer"))
            except Exception as error:  # aiortc's errors have no common base
                raise BadOfferError(f"the SDP offer cannot be used: {error}") from error
            self._before_answer()
            self.answer = await self._options.ice.create_answer(self._connection)
            self._after_answer()
        except BaseException:
            self._on_closed = None
            await self.close()
            raise

    @abstractmethod
    def _before_answer(self) -> None:
        """Configure the transceivers that the offer asked for."""

    @abstractmethod
    def _after_answer(self) -> None:
        """Start the tasks of this peer."""

    def _before_close(self) -> None:
        """Release what the connection's close does not."""

    def _start_task(self, work: Coroutine[Any, Any, None], name: str) -> None:
        """Run ``work`` until it ends or the connection is closed."""
        self._tasks.append(asyncio.create_task(work, name=name))

    def _start_close(self, reason: Reason) -> asyncio.Task[None]:
        if self._closing is None:
            self._closing = asyncio.create_task(self._close(reason), name=f"close a {self.role}")
        return self._closing

    def _on_state_change(self) -> None:
        state = self._connection.connectionState
        if state == "closed":
            self._start_close(self._reasons.peer)
        elif state == "failed":
            self._start_close(self._reasons.failure)

    async def _close(self, reason: Reason) -> None:
        for task in self._tasks:
            task.cancel()
        self._before_close()
        await self._connection.close()
        logger.info("a %s's connection ended: %s", self.role, reason.value)
        if self._on_closed is not None:
            try:
                self._on_closed(reason)
            except Exception:
                logger.exception("on_closed of a %s's connection failed", self.role)


class Liveness:
    """Decides from counters whether a peer has vanished; without a clock or a connection of its own.

    A peer that is sent nothing owes no response, so silence counts from the next frame on.
    """

    def __init__(self, timeouts: PeerTimeouts, now_ns: int) -> None:
        self._timeouts = timeouts
        self._start_ns = now_ns
        self._received = 0
        self._sent = 0
        self._unanswered_ns: int | None = None

    def has_vanished(self, now_ns: int, *, connected: bool, sent: int, received: int) -> bool:
        """Whether the peer should be disconnected.

        Args:
            now_ns: the time.
            connected: the state of the connection.
            sent: frames sent so far.
            received: packets of any kind received so far.
        """
        if not connected:
            return now_ns - self._start_ns > self._timeouts.connect_s * NS_PER_S
        if received > self._received:
            self._received = received
            self._unanswered_ns = None
        elif self._unanswered_ns is None and sent > self._sent:
            self._unanswered_ns = now_ns
        self._sent = sent
        return self._unanswered_ns is not None and now_ns - self._unanswered_ns > self._timeouts.silence_s * NS_PER_S


async def packets_received(end: RTCRtpSender | RTCRtpReceiver) -> int:
    """The number of packets of any kind received over the transport of ``end``."""
    stats = await end.getStats()
    return sum(entry.packetsReceived for entry in stats.values() if entry.type == "transport")


async def close_all(peers: Iterable[RemotePeer[Any]]) -> None:
    """Close all peers at once; a failure is logged and does not affect the others."""
    closing = list(peers)
    outcomes = await asyncio.gather(*(peer.close() for peer in closing), return_exceptions=True)
    for peer, outcome in zip(closing, outcomes, strict=True):
        if isinstance(outcome, BaseException):
            logger.error("the connection of a %s could not be closed", peer.role, exc_info=outcome)
