"""ICE: STUN and TURN servers, the gathering and advertising of candidates, and the candidates of the other side."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import ipaddress
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from aiortc import RTCConfiguration, RTCIceCandidate, RTCIceServer, RTCPeerConnection
from aiortc.rtcicetransport import parse_stun_turn_uri
from aiortc.sdp import candidate_from_sdp

from .aiortc_internals import ignore_bad_datagrams, limit_gathering, report_missing
from .errors import BadCandidateError, NoCandidatesError
from .udp_ports import UdpPorts

_CANDIDATE = "a=candidate:"
_END_OF_CANDIDATES = "a=end-of-candidates"
_CONNECTION = "c=IN IP"
_HOST_FIELD, _TYPE_FIELD = 4, 7
_MAX_CANDIDATES = 64
_DAY_S = 24 * 3600
_CANCEL_ATTEMPTS, _CANCEL_INTERVAL_S = 40, 0.05
_CONNECT = "_RTCPeerConnection__connect"


@dataclass(frozen=True)
class TurnSecret:
    """The secret shared with the TURN server (coturn: ``use-auth-secret`` and ``static-auth-secret``).

    Attributes:
        secret: the shared secret; it never leaves this process.
        lifetime_s: how long credentials are valid, in seconds.

    Raises:
        ValueError: the secret is empty.
    """

    secret: str = field(repr=False)
    lifetime_s: int = _DAY_S

    def __post_init__(self) -> None:
        if not self.secret:
            raise ValueError("turn_secret must be the secret of the TURN server, got an empty text")

    def credentials(self, user: str, now_s: float) -> tuple[str, str]:
        """User name and password for ``user``, which the TURN server's log names.

        Args:
            user: any name.
            now_s: seconds since the Unix epoch, by the TURN server's clock.
        """
        username = f"{int(now_s) + self.lifetime_s}:{user}"
        digest = hmac.new(self.secret.encode(), username.encode(), hashlib.sha1).digest()
        return username, base64.b64encode(digest).decode()


@dataclass(frozen=True)
class IceServer:
    """A STUN or TURN server, for example ``IceServer("turn:turn.example.org:3478", "user", "secret")``.

    Raises:
        ValueError: a malformed URL.
    """

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
        """Whether it is a TURN server, which relays."""
        return self.url.startswith("turn")


class PeerConnection(RTCPeerConnection):
    """An ``RTCPeerConnection`` whose :meth:`close` also cancels its pending connect task.

    aiortc does not keep that task. After a close it would start consent checks and reports that are never stopped, or
    fail with an exception that is never retrieved.
    """

    def __init__(self, configuration: RTCConfiguration) -> None:
        super().__init__(configuration)
        self._connecting: set[asyncio.Task[Any]] = set()
        connect = getattr(self, _CONNECT, None)
        if not callable(connect):
            report_missing(_CONNECT, "closing a connection may leave tasks behind")
            return

        async def connect_tracked() -> None:
            task = asyncio.current_task()
            assert task is not None
            self._connecting.add(task)
            try:
                await connect()
            finally:
                self._connecting.discard(task)

        setattr(self, _CONNECT, connect_tracked)

    async def close(self) -> None:
        """End the connection. Idempotent."""
        tasks = self._connecting - {asyncio.current_task()}
        for _ in range(_CANCEL_ATTEMPTS):  # aioice can swallow a cancellation
            if not tasks:
                break
            for task in tasks:
                task.cancel()
            _, tasks = await asyncio.wait(tasks, timeout=_CANCEL_INTERVAL_S)
        await super().close()


@dataclass(frozen=True)
class IceConfig:
    """How this side gathers candidates. Without servers it offers its own addresses only.

    Attributes:
        servers: aiortc uses the first STUN and the first TURN server.
        gather_deadline_s: how long an answer waits for those servers, in seconds.
        turn_secret: makes credentials for TURN servers that have none.
        relay_only: offer addresses of the TURN server and no others.
        udp_ports: the ports to bind; by default the system chooses.
        public_address: offered in place of this machine's own addresses, as behind a NAT.

    Raises:
        ValueError: contradictory settings.
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
        """The servers with credentials for ``user``."""
        return tuple(self._with_credentials(server, user) for server in self.servers)

    def create_connection(self) -> PeerConnection:
        """A new connection that uses these servers and no others."""
        servers = [
            RTCIceServer(s.url, username=s.username, credential=s.credential) for s in self.servers_for("server")
        ]
        return PeerConnection(RTCConfiguration(iceServers=servers))

    def restrict(self, connection: RTCPeerConnection) -> None:
        """Apply these settings to the gathering of ``connection``, and let it ignore malformed datagrams.

        Call it once, before a local description is set.
        """
        transports = {transceiver.sender.transport for transceiver in connection.getTransceivers()}
        if connection.sctp is not None:
            transports.add(connection.sctp.transport)
        for transport in transports:
            ignore_bad_datagrams(transport)
            limit_gathering(
                transport.transport.iceGatherer,
                self.gather_deadline_s,
                relay_only=self.relay_only,
                ports=self.udp_ports,
            )

    async def create_answer(self, connection: RTCPeerConnection) -> str:
        """Answer the remote offer of ``connection`` within these settings; returns the SDP for the other side.

        Raises:
            NoCandidatesError: this machine has no address to offer.
        """
        self.restrict(connection)
        try:
            await connection.setLocalDescription(await connection.createAnswer())
        except OSError as error:
            raise NoCandidatesError(f"no socket for WebRTC ({error.strerror}): try again later") from error
        sdp = self.local_sdp(connection)
        if _CANDIDATE not in sdp:
            missing = "no address of the TURN server" if self.relay_only else "no local address or free UDP port"
            raise NoCandidatesError(f"{missing} for WebRTC: try again later")
        return sdp

    def local_sdp(self, connection: RTCPeerConnection) -> str:
        """The local description of ``connection`` for the other side."""
        sdp: str = connection.localDescription.sdp
        if self.relay_only:
            sdp = hide_related_addresses(sdp)
        return sdp if self.public_address is None else advertise(sdp, self.public_address)

    def _with_credentials(self, server: IceServer, user: str) -> IceServer:
        if self.turn_secret is None or not server.is_turn or server.username is not None:
            return server
        return IceServer(server.url, *self.turn_secret.credentials(user, time.time()))


@dataclass(frozen=True)
class TrickleFragment:
    """Usable trickled candidates, as SDP values, and the ICE user name fragment, if given."""

    candidates: tuple[str, ...]
    ufrag: str | None


def check_public_address(text: str) -> None:
    """Validate a public address.

    Raises:
        ValueError: ``text`` is not an IP address that can be sent to.
    """
    try:
        address = ipaddress.ip_address(text)
    except ValueError as error:
        raise ValueError(
            f"public_address must be an IP address such as 203.0.113.5, got {text!r}: look a name up first"
        ) from error
    if address.is_unspecified or address.is_multicast:
        raise ValueError(f"public_address must be the address that viewers send to, got {text!r}")


def advertise(sdp: str, public_address: str) -> str:
    """``sdp`` with ``public_address`` in place of this machine's own addresses of the same family (RFC 8839).

    Ports stay unchanged: the NAT must forward them one to one.
    """
    public = ipaddress.ip_address(public_address)
    own = {fields[_HOST_FIELD] for line in sdp.splitlines() if (fields := _host_candidate(line))}
    own = {address for address in own if ipaddress.ip_address(address).version == public.version}
    lines: list[str] = []
    for line in sdp.splitlines():
        fields = _host_candidate(line)
        if fields and fields[_HOST_FIELD] in own:
            fields[_HOST_FIELD] = public_address
            line = " ".join(fields)
        elif line.startswith(_CONNECTION) and line.split()[-1] in own:
            line = f"{_CONNECTION}{public.version} {public_address}"
        lines.append(line)
    return "\r\n".join(lines) + "\r\n"


def hide_related_addresses(sdp: str) -> str:
    """``sdp`` without the address behind the relay in relayed candidates (RFC 9429, section 3.5.3)."""
    return "\r\n".join(map(_without_related, sdp.splitlines())) + "\r\n"


def parse_fragment(text: str) -> TrickleFragment:
    """Read an ``application/trickle-ice-sdpfrag`` body (RFC 8840).

    Raises:
        BadCandidateError: naming the malformed line.
    """
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
    if len(candidates) > _MAX_CANDIDATES:
        raise BadCandidateError(f"at most {_MAX_CANDIDATES} candidates in a fragment, got {len(candidates)}")
    return TrickleFragment(tuple(candidates), ufrag)


def to_candidate(value: str, mid: str) -> RTCIceCandidate:
    """A candidate's SDP value as aiortc's type, for the media section ``mid``."""
    candidate = candidate_from_sdp(value)
    candidate.sdpMid = mid
    return candidate


def is_usable(line: str) -> bool:
    """Whether an ``a=candidate:`` line is UDP and has an IP address.

    A browser's mDNS names are not usable: its own connectivity checks reveal its address sooner than a name resolves.

    Raises:
        BadCandidateError: it is not a candidate.
    """
    parts = line[len(_CANDIDATE) :].split()
    try:
        component, transport, priority, host, port, typ, kind = parts[1:8]
        in_range = typ == "typ" and int(component) > 0 and 0 <= int(priority) < 2**32 and 0 <= int(port) < 2**16
    except ValueError:
        in_range = False
    if not in_range:
        raise BadCandidateError(f"not an ICE candidate (RFC 8839, section 5.1): {line[:120]!r}")
    return transport.lower() == "udp" and _is_address(host) and kind in ("host", "srflx", "relay")


def keep_usable_candidates(sdp: str) -> str:
    """``sdp`` without unusable candidates and without end-of-candidates marks.

    Without that mark the connection keeps waiting for the other side's connectivity checks, from any address.

    Raises:
        BadCandidateError: a malformed candidate, or too many.
    """
    candidates = [line for line in sdp.splitlines() if line.startswith(_CANDIDATE)]
    if len(candidates) > _MAX_CANDIDATES:
        raise BadCandidateError(f"at most {_MAX_CANDIDATES} candidates in a description, got {len(candidates)}")
    kept = [
        line
        for line in sdp.splitlines()
        if not line.startswith(_END_OF_CANDIDATES) and (not line.startswith(_CANDIDATE) or is_usable(line.strip()))
    ]
    return "\r\n".join(kept) + "\r\n"


def _host_candidate(line: str) -> list[str] | None:
    fields = line.split()
    is_host = line.startswith(_CANDIDATE) and len(fields) > _TYPE_FIELD and fields[_TYPE_FIELD] == "host"
    return fields if is_host else None


def _without_related(line: str) -> str:
    fields = line.split()
    if line.startswith(_CANDIDATE) and "raddr" in fields and "rport" in fields:
        fields[fields.index("raddr") + 1] = "0.0.0.0"
        fields[fields.index("rport") + 1] = "9"
        return " ".join(fields)
    return line


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True
