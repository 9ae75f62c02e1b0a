"""Which way viewers will come, found out before the first of them does."""

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


class RouteKind(str, enum.Enum):
    """The farthest place that viewers can come from, nearest first."""

    NONE = "none"
    LOOPBACK = "loopback"
    LAN = "lan"
    PUBLIC = "public"
    REFLEXIVE = "reflexive"
    RELAY = "relay"


_TEXTS = {
    RouteKind.NONE: "there is no address to offer, so video goes over HTTP, by WebCodecs or MJPEG",
    RouteKind.LOOPBACK: "viewers on this machine only",
    RouteKind.LAN: "viewers that reach this machine directly, as in its own network",
    RouteKind.PUBLIC: "viewers that reach the public address",
    RouteKind.REFLEXIVE: "viewers elsewhere too, unless a NAT or firewall in between takes no UDP from strangers",
    RouteKind.RELAY: "viewers that reach the TURN server",
}


@dataclass(frozen=True)
class Route:
    """What this machine can offer to viewers.

    Attributes:
        addresses: those that are offered, best first.
        silent: servers that were asked and gave no address in time.
    """

    kind: RouteKind
    addresses: tuple[str, ...] = ()
    silent: tuple[str, ...] = ()

    def __str__(self) -> str:
        text = _TEXTS[self.kind]
        if self.addresses:
            text += f" ({', '.join(self.addresses)})"
        return text + "".join(f"; {url} gave no address" for url in self.silent)


async def find_route(ice: IceConfig, *, page_on_loopback: bool = False) -> Route:
    """Gather addresses as for a viewer, and say how far they reach.

    It takes no longer than gathering for a viewer and closing the connection, and does not raise.

    Args:
        page_on_loopback: only browsers of this machine get the page, so that its other addresses serve these alone.
    """
    connection = ice.connection()
    try:
        candidates = await _gather(ice, connection)  # has its own deadline; cut off, it would leave sockets open
    except Exception as error:  # whatever is wrong with the network, the server starts
        logger.debug("no addresses could be gathered: %s", error)
        candidates = []
    finally:
        closing = asyncio.ensure_future(connection.close())
        await asyncio.wait({closing}, timeout=_CLOSE_TIMEOUT_S)  # a TURN server that vanished would hold it up
    route = _route(ice, candidates)
    return replace(route, kind=RouteKind.LOOPBACK) if page_on_loopback and route.kind is RouteKind.LAN else route


async def _gather(ice: IceConfig, connection: RTCPeerConnection) -> list[RTCIceCandidate]:
    connection.createDataChannel("route")
    ice.bound(connection)
    await connection.setLocalDescription(await connection.createOffer())
    (media,) = SessionDescription.parse(ice.describe(connection)).media
    return list(media.ice_candidates)


def _route(ice: IceConfig, candidates: Sequence[RTCIceCandidate]) -> Route:
    types = {candidate.type for candidate in candidates}
    ranked = sorted(candidates, key=lambda candidate: -candidate.priority)
    return Route(
        _kind(ice, types, [candidate.ip for candidate in candidates if candidate.type == "host"]),
        tuple(dict.fromkeys(candidate.ip for candidate in ranked)),
        tuple(_silent(ice, types)),
    )


def _kind(ice: IceConfig, types: set[str], hosts: Sequence[str]) -> RouteKind:
    if "relay" in types:
        return RouteKind.RELAY
    if "srflx" in types:
        return RouteKind.REFLEXIVE
    if not hosts:
        return RouteKind.NONE
    if all(ipaddress.ip_address(host).is_loopback for host in hosts):
        return RouteKind.LOOPBACK
    return RouteKind.LAN if ice.public_address is None else RouteKind.PUBLIC


def _silent(ice: IceConfig, types: set[str]) -> list[str]:
    """aiortc asks the first server of each sort, and none for its own address when only relays are wanted."""
    asked = [next((server for server in ice.servers if server.is_turn), None)] if "relay" not in types else []
    if "srflx" not in types and not ice.relay_only:
        asked.append(next((server for server in ice.servers if not server.is_turn), None))
    return [server.url for server in asked if server is not None]
