"""From where viewers can reach this machine by WebRTC, determined before the first offer."""

from __future__ import annotations

import asyncio
import enum
import ipaddress
import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace

from aiortc import RTCIceCandidate, RTCPeerConnection
from aiortc.sdp import SessionDescription

from .ice import IceConfig

logger = logging.getLogger(__name__)

_CLOSE_TIMEOUT_S = 5.0


class ReachabilityKind(str, enum.Enum):
    """The farthest place from which viewers can connect, nearest first."""

    NONE = "none"
    LOOPBACK = "loopback"
    LAN = "lan"
    PUBLIC = "public"
    REFLEXIVE = "reflexive"
    RELAY = "relay"


_TEXTS = {
    ReachabilityKind.NONE: "no address to offer; video is sent over HTTP, by WebCodecs or MJPEG",
    ReachabilityKind.LOOPBACK: "viewers on this machine only",
    ReachabilityKind.LAN: "viewers that reach this machine directly, as in its own network",
    ReachabilityKind.PUBLIC: "viewers that reach the public address",
    ReachabilityKind.REFLEXIVE: "viewers on other networks too, unless a NAT or firewall blocks inbound UDP",
    ReachabilityKind.RELAY: "viewers that reach the TURN server",
}


@dataclass(frozen=True)
class Reachability:
    """What this machine can offer to viewers.

    Attributes:
        kind: the farthest place from which viewers can connect.
        addresses: the offered addresses, best first.
        silent: URLs of STUN and TURN servers that gave no address in time.
    """

    kind: ReachabilityKind
    addresses: tuple[str, ...] = ()
    silent: tuple[str, ...] = ()

    def __str__(self) -> str:
        text = _TEXTS[self.kind]
        if self.addresses:
            text += f" ({', '.join(self.addresses)})"
        return text + "".join(f"; {url} gave no address" for url in self.silent)


async def find_reachability(ice: IceConfig, *, page_on_loopback: bool = False) -> Reachability:
    """Gather candidates as for a viewer, and tell how far they reach. Does not raise.

    It takes no longer than gathering for a viewer and closing the connection.

    Args:
        ice: addresses and servers, as they are used for viewers.
        page_on_loopback: the page is served to browsers of this machine only, so LAN addresses serve no one else.
    """
    connection = ice.create_connection()
    try:
        candidates = await _gather(ice, connection)  # has its own deadline; cancelling it would leave sockets open
    except Exception as error:  # the server starts whatever is wrong with the network
        logger.debug("no addresses could be gathered: %s", error)
        candidates = []
    finally:
        closing = asyncio.ensure_future(connection.close())
        await asyncio.wait({closing}, timeout=_CLOSE_TIMEOUT_S)  # an unreachable TURN server delays closing
    found = _assess(ice, candidates)
    if page_on_loopback and found.kind is ReachabilityKind.LAN:
        return replace(found, kind=ReachabilityKind.LOOPBACK)
    return found


async def _gather(ice: IceConfig, connection: RTCPeerConnection) -> list[RTCIceCandidate]:
    connection.createDataChannel("reachability")
    ice.restrict(connection)
    await connection.setLocalDescription(await connection.createOffer())
    (media,) = SessionDescription.parse(ice.local_sdp(connection)).media
    return list(media.ice_candidates)


def _assess(ice: IceConfig, candidates: Sequence[RTCIceCandidate]) -> Reachability:
    types = {candidate.type for candidate in candidates}
    ranked = sorted(candidates, key=lambda candidate: -candidate.priority)
    return Reachability(
        _kind(ice, types, [candidate.ip for candidate in candidates if candidate.type == "host"]),
        tuple(dict.fromkeys(candidate.ip for candidate in ranked)),
        tuple(_silent(ice, types)),
    )


def _kind(ice: IceConfig, types: set[str], hosts: Sequence[str]) -> ReachabilityKind:
    if "relay" in types:
        return ReachabilityKind.RELAY
    if "srflx" in types:
        return ReachabilityKind.REFLEXIVE
    if not hosts:
        return ReachabilityKind.NONE
    if all(ipaddress.ip_address(host).is_loopback for host in hosts):
        return ReachabilityKind.LOOPBACK
    return ReachabilityKind.LAN if ice.public_address is None else ReachabilityKind.PUBLIC


def _silent(ice: IceConfig, types: set[str]) -> list[str]:
    """URLs of the queried servers without an answer: aiortc queries the first STUN and the first TURN server."""
    asked = [next((server for server in ice.servers if server.is_turn), None)] if "relay" not in types else []
    if "srflx" not in types and not ice.relay_only:
        asked.append(next((server for server in ice.servers if not server.is_turn), None))
    return [server.url for server in asked if server is not None]
