"""ICE: the servers that help, and the candidates that a viewer trickles in."""

from __future__ import annotations

import ipaddress
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from aiortc import RTCConfiguration, RTCIceCandidate, RTCIceServer, RTCPeerConnection
from aiortc.rtcicetransport import parse_stun_turn_uri
from aiortc.sdp import candidate_from_sdp

from .advertising import advertise, check_public_address, hide_related_addresses
from .connection import Connection
from .errors import BadCandidateError, NoCandidatesError
from .internals import bound_gathering, outlive_bad_datagrams
from .ports import UdpPorts
from .turn import TurnSecret

_MOST_CANDIDATES = 64
_CANDIDATE = "a=candidate:"
_END = "a=end-of-candidates"


@dataclass(frozen=True)
class IceServer:
    """A STUN or TURN server, for example ``IceServer("turn:turn.example.org:3478", "user", "secret")``."""

    url: str
    username: str | None = None
    credential: str | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        try:
            parse_stun_turn_uri(self.url)
        except ValueError as error:
            raise ValueError(
                f"an ICE server's URL looks like stun:host:port or turn:host:port?transport=udp, "
                f"got {self.url!r} ({error})"
            ) from error

    @property
    def is_turn(self) -> bool:
        """Whether it relays."""
        return self.url.startswith("turn")


@dataclass(frozen=True)
class IceConfig:
    """How this side finds addresses. Without servers it offers its own addresses only.

    Attributes:
        servers: aiortc uses the first STUN and the first TURN server.
        gather_deadline_s: how long an answer waits for those servers, in seconds.
        turn_secret: makes credentials for TURN servers that were given none.
        relay_only: offer addresses of the TURN server and no others.
        udp_ports: where to take ports; by default the system chooses.
        public_address: offered in place of this machine's own addresses, as behind a NAT.

    Raises:
        ValueError: the settings do not go together.
    """

    servers: Sequence[IceServer] = ()
    gather_deadline_s: float = 0.5
    turn_secret: TurnSecret | None = None
    relay_only: bool = False
    udp_ports: UdpPorts | None = None
    public_address: str | None = None

    def __post_init__(self) -> None:
        relays = [server for server in self.servers if server.is_turn]
        for server in relays:
            if self.turn_secret is None and (server.username is None or server.credential is None):
                raise ValueError(f"{server.url!r} needs a user and a password, or a turn_secret to make them from")
        if self.turn_secret is not None and all(server.username is not None for server in relays):
            raise ValueError("turn_secret is for a TURN server without a user of its own among ice_servers")
        if self.relay_only and not relays:
            raise ValueError("relay_only needs a TURN server among ice_servers, such as turn:turn.example.org:3478")
        if self.public_address is not None:
            check_public_address(self.public_address)

    def servers_for(self, user: str) -> tuple[IceServer, ...]:
        """The servers with credentials for ``user``, made now where they are made at all."""
        return tuple(self._with_credentials(server, user) for server in self.servers)

    def connection(self) -> Connection:
        """A new connection that uses these servers and no others."""
        servers = [
            RTCIceServer(s.url, username=s.username, credential=s.credential) for s in self.servers_for("server")
        ]
        return Connection(RTCConfiguration(iceServers=servers))

    def bound(self, connection: RTCPeerConnection) -> None:
        """Hold the gathering of ``connection`` to these settings, and let it outlive malformed datagrams.

        Call it once, before a local description is set.
        """
        transports = {transceiver.sender.transport for transceiver in connection.getTransceivers()}
        if connection.sctp is not None:
            transports.add(connection.sctp.transport)
        for transport in transports:
            outlive_bad_datagrams(transport)
            bound_gathering(
                transport.transport.iceGatherer,
                self.gather_deadline_s,
                relay_only=self.relay_only,
                ports=self.udp_ports,
            )

    async def answer(self, connection: RTCPeerConnection) -> str:
        """Answer the offer that ``connection`` has, within these settings; the SDP is as the other side shall have it.

        Errors: ``NoCandidatesError`` when this machine has no address to offer.
        """
        self.bound(connection)
        try:
            await connection.setLocalDescription(await connection.createAnswer())
        except OSError as error:
            raise NoCandidatesError(f"no socket for WebRTC ({error.strerror}): try again later") from error
        sdp = self.describe(connection)
        if _CANDIDATE not in sdp:
            lack = "no address of the TURN server" if self.relay_only else "no local address or free UDP port"
            raise NoCandidatesError(f"{lack} for WebRTC: try again later")
        return sdp

    def describe(self, connection: RTCPeerConnection) -> str:
        """The local description of ``connection`` as the other side shall have it."""
        sdp: str = connection.localDescription.sdp
        if self.relay_only:
            sdp = hide_related_addresses(sdp)
        return sdp if self.public_address is None else advertise(sdp, self.public_address)

    def _with_credentials(self, server: IceServer, user: str) -> IceServer:
        if self.turn_secret is None or not server.is_turn or server.username is not None:
            return server
        return IceServer(server.url, *self.turn_secret.credentials(user, time.time()))


@dataclass(frozen=True)
class Fragment:
    """What a viewer trickled: usable candidates (as SDP values) and its ICE user name, if it said so."""

    candidates: tuple[str, ...]
    ufrag: str | None


def parse_fragment(text: str) -> Fragment:
    """Read an ``application/trickle-ice-sdpfrag`` body (RFC 8840). Errors: ``BadCandidateError`` names the line."""
    candidates: list[str] = []
    ufrag = None
    for line in text.splitlines():
        line = line.strip()
        if line.startswith("a=ice-ufrag:"):
            ufrag = line.partition(":")[2]
        elif line.startswith(_CANDIDATE) and is_usable(line):
            candidates.append(line[len(_CANDIDATE) :])
        elif line and (len(line) < 2 or line[1] != "="):
            raise BadCandidateError(f"expected lines like 'a=candidate:...', got {line[:80]!r}")
    if len(candidates) > _MOST_CANDIDATES:
        raise BadCandidateError(f"at most {_MOST_CANDIDATES} candidates in a fragment, got {len(candidates)}")
    return Fragment(tuple(candidates), ufrag)


def to_candidate(value: str, mid: str) -> RTCIceCandidate:
    """A candidate's SDP value as aiortc takes it, for the media section ``mid``."""
    candidate = candidate_from_sdp(value)
    candidate.sdpMid = mid
    return candidate


def is_usable(line: str) -> bool:
    """Whether an ``a=candidate:`` line can help: UDP and a plain address.

    A browser's mDNS names are left out: the viewer's own checks reveal its address sooner than a name resolves.

    Errors: ``BadCandidateError`` when it is no candidate.
    """
    parts = line[len(_CANDIDATE) :].split()
    try:
        component, transport, priority, host, port, typ, kind = parts[1:8]
        in_range = typ == "typ" and int(component) > 0 and 0 <= int(priority) < 2**32 and 0 <= int(port) < 2**16
    except ValueError:
        in_range = False
    if not in_range:
        raise BadCandidateError(f"not an ICE candidate (RFC 8839 section 5.1): {line[:120]!r}")
    return transport.lower() == "udp" and _is_address(host) and kind in ("host", "srflx", "relay")


def keep_usable_candidates(sdp: str) -> str:
    """``sdp`` without candidates that cannot help, and without its end-of-candidates marks.

    Without that mark the connection goes on waiting for the viewer's checks, from wherever they come.

    Errors: ``BadCandidateError``.
    """
    candidates = [line for line in sdp.splitlines() if line.startswith(_CANDIDATE)]
    if len(candidates) > _MOST_CANDIDATES:
        raise BadCandidateError(f"at most {_MOST_CANDIDATES} candidates in a description, got {len(candidates)}")
    kept = [
        line
        for line in sdp.splitlines()
        if not line.startswith(_END) and (not line.startswith(_CANDIDATE) or is_usable(line.strip()))
    ]
    return "\r\n".join(kept) + "\r\n"


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True
