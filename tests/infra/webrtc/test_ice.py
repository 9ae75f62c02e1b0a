from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
from typing import Any

import pytest

from realtime_engine.infra.webrtc.errors import BadCandidateError
from realtime_engine.infra.webrtc.ice import (
    IceConfig,
    IceServer,
    TurnSecret,
    advertise,
    check_public_address,
    hide_related_addresses,
    keep_usable_candidates,
    parse_fragment,
    to_candidate,
)

from .free_ports import free_ports

PLAIN = "a=candidate:1 1 udp 2122260223 192.0.2.7 50000 typ host generation 0"
V6 = "a=candidate:2 1 udp 2122260222 2001:db8::7 50001 typ host"
MDNS = "a=candidate:3 1 udp 2122260221 7f3a-2b.local 50002 typ host"
TCP = "a=candidate:4 1 tcp 1518280447 192.0.2.7 9 typ host tcptype active"
SRFLX = "a=candidate:5 1 UDP 1686052607 203.0.113.5 50003 typ srflx raddr 192.0.2.7 rport 50000"


def fragment(*lines: str, ufrag: str = "abcd") -> str:
    return "\r\n".join([f"a=ice-ufrag:{ufrag}", "a=ice-pwd:secret", "m=video 9 UDP/TLS/RTP/SAVPF 0", "a=mid:0", *lines])


def test_a_fragment_has_usable_candidates() -> None:
    parsed = parse_fragment(fragment(PLAIN, MDNS, V6, TCP, SRFLX, "a=end-of-candidates"))
    assert parsed.ufrag == "abcd"
    assert [value.split()[0] for value in parsed.candidates] == ["1", "2", "5"]
    candidate = to_candidate(parsed.candidates[2], "7")
    assert (candidate.ip, candidate.port, candidate.type, candidate.sdpMid) == ("203.0.113.5", 50003, "srflx", "7")


def test_an_empty_fragment_is_valid() -> None:
    assert parse_fragment("").candidates == ()
    assert parse_fragment("a=end-of-candidates\r\n").candidates == ()


@pytest.mark.parametrize(
    "line",
    [
        "a=candidate:",
        "a=candidate:1 1 udp many 192.0.2.7 50000 typ host",
        "a=candidate:1 1 udp 1 192.0.2.7 -5 typ host",
        "a=candidate:1 1 udp 1 192.0.2.7 70000 typ host",
        "a=candidate:1 1 udp 1 192.0.2.7",
        '{"candidate": "..."}',
    ],
)
def test_a_malformed_fragment_is_quoted(line: str) -> None:
    with pytest.raises(BadCandidateError) as error:
        parse_fragment(line)
    assert line[:20] in str(error.value)


def test_a_flood_of_candidates_is_refused() -> None:
    with pytest.raises(BadCandidateError, match="at most 64"):
        parse_fragment("\n".join([PLAIN] * 65))


def test_only_unusable_candidates_are_removed_from_an_sdp() -> None:
    sdp = "\r\n".join(["v=0", "m=video 9 UDP 0", PLAIN, MDNS, TCP, "a=end-of-candidates", "a=mid:0", ""])
    assert keep_usable_candidates(sdp) == "\r\n".join(["v=0", "m=video 9 UDP 0", PLAIN, "a=mid:0", ""])


@pytest.mark.parametrize("url", ["", "http://stun.example.org", "stun:", "turn"])
def test_a_server_url_is_validated(url: str) -> None:
    with pytest.raises(ValueError, match="stun:host:port"):
        IceServer(url)


async def test_only_configured_servers_are_used() -> None:
    connection = IceConfig().create_connection()
    connection.createDataChannel("x")
    ice = connection.sctp.transport.transport.iceGatherer._connection
    assert ice.stun_server is None and ice.turn_server is None
    await connection.close()


async def test_a_cancelled_gathering_leaves_no_socket_open(monkeypatch: pytest.MonkeyPatch) -> None:
    loop, opened = asyncio.get_running_loop(), []
    create = loop.create_datagram_endpoint

    async def create_slowly(*arguments: Any, **given: Any) -> Any:
        opened.append(made := await create(*arguments, **given))
        await asyncio.sleep(0.1)
        return made

    monkeypatch.setattr(loop, "create_datagram_endpoint", create_slowly)
    connection = IceConfig().create_connection()
    connection.createDataChannel("x")
    IceConfig().restrict(connection)
    gathering = asyncio.create_task(connection.setLocalDescription(await connection.createOffer()))
    while not opened:  # noqa: ASYNC110 - it has no event
        await asyncio.sleep(0)
    gathering.cancel()
    await asyncio.wait({gathering})
    await connection.close()
    assert gathering.cancelled() and all(transport.is_closing() for transport, _ in opened)


async def test_an_unreachable_server_does_not_delay_an_offer() -> None:
    config = IceConfig([IceServer("stun:192.0.2.254:3478")], gather_deadline_s=0.1)
    connection = config.create_connection()
    connection.createDataChannel("x")
    gatherer = connection.sctp.transport.transport.iceGatherer
    assert gatherer._connection.stun_server == ("192.0.2.254", 3478)
    waits: list[float] = []
    gather = gatherer._connection.get_component_candidates

    async def note(component: int, addresses: list[str], timeout: float = 5) -> object:
        waits.append(timeout)
        return await gather(component, addresses, timeout=timeout)

    gatherer._connection.get_component_candidates = note
    config.restrict(connection)
    await connection.setLocalDescription(await connection.createOffer())
    assert waits == [0.1]
    assert "a=candidate:" in connection.localDescription.sdp
    await connection.close()


async def test_without_a_network_the_loopback_address_is_offered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("aioice.ice.get_host_addresses", lambda **_: [])
    connection = IceConfig().create_connection()
    connection.createDataChannel("x")
    IceConfig().restrict(connection)
    await connection.setLocalDescription(await connection.createOffer())
    assert " 127.0.0.1 " in connection.localDescription.sdp
    await connection.close()


async def gathered(config: IceConfig) -> str:
    """The description of a connection with these settings."""
    connection = config.create_connection()
    connection.createDataChannel("x")
    config.restrict(connection)
    await connection.setLocalDescription(await connection.createOffer())
    description = config.local_sdp(connection)
    await connection.close()
    return description


def ports_in(description: str) -> set[int]:
    return {int(line.split()[5]) for line in description.splitlines() if line.startswith("a=candidate:")}


async def test_the_offered_ports_are_in_the_range() -> None:
    ports = free_ports(4)
    offered = ports_in(await gathered(IceConfig(udp_ports=ports)))
    assert offered and offered <= set(range(ports.first, ports.last + 1))


async def test_concurrent_connections_use_their_own_ranges() -> None:
    one, two = free_ports(4), free_ports(4)
    descriptions = await asyncio.gather(gathered(IceConfig(udp_ports=one)), gathered(IceConfig(udp_ports=two)))
    assert [min(ports_in(text)) in range(r.first, r.last + 1) for text, r in zip(descriptions, (one, two), strict=True)]


async def test_the_public_address_replaces_the_local_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("aioice.ice.get_host_addresses", lambda **_: ["127.0.0.1"])
    description = await gathered(IceConfig(public_address="203.0.113.5"))
    assert "127.0.0.1" not in description
    assert "c=IN IP4 203.0.113.5" in description


async def test_relay_only_offers_no_address_of_this_machine() -> None:
    config = IceConfig([IceServer("turn:192.0.2.254", "a", "b")], relay_only=True, gather_deadline_s=0.01)
    assert "a=candidate:" not in await gathered(config)


def test_credentials_are_made_where_a_server_has_none() -> None:
    servers = (IceServer("stun:s.example"), IceServer("turn:t.example"), IceServer("turn:u.example", "me", "mine"))
    config = IceConfig(servers, turn_secret=TurnSecret("north"))
    stun, made, own = config.servers_for("ann")
    assert (stun, own) == (servers[0], servers[2])
    assert made.username is not None and made.username.endswith(":ann") and made.credential
    assert config.servers_for("bob")[1] != made
    assert made.credential not in repr(made)


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"servers": [IceServer("turn:t.example")]}, "'turn:t.example' needs a user and a password, or a turn_secret"),
        ({"turn_secret": TurnSecret("north")}, "turn_secret is for a TURN server"),
        ({"relay_only": True, "servers": [IceServer("stun:s.example")]}, "relay_only needs a TURN server"),
        ({"public_address": "example.org"}, "public_address must be an IP address"),
    ],
)
def test_contradictory_settings_are_refused(given: dict[str, Any], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        IceConfig(**given)


SDP = "\r\n".join(
    [
        "v=0",
        "o=- 1 1 IN IP4 0.0.0.0",
        "m=video 50007 UDP/TLS/RTP/SAVPF 97",
        "c=IN IP4 192.0.2.7",
        "a=candidate:1 1 udp 2130706431 192.0.2.7 50007 typ host",
        "a=candidate:2 1 udp 2130706431 2001:db8::7 50008 typ host",
        "a=candidate:3 1 udp 1694498815 198.51.100.1 50007 typ srflx raddr 192.0.2.7 rport 50007",
        "a=candidate:4 1 udp 16777215 198.51.100.2 40000 typ relay raddr 192.0.2.7 rport 40001",
        "a=end-of-candidates",
        "m=application 9 UDP/DTLS/SCTP webrtc-datachannel",
        "c=IN IP4 0.0.0.0",
        "",
    ]
)


def changes(before: str, after: str) -> list[str]:
    pairs = zip(before.split("\r\n"), after.split("\r\n"), strict=True)
    return [new for old, new in pairs if new != old]


def test_advertising_replaces_addresses_and_keeps_ports() -> None:
    assert changes(SDP, advertise(SDP, "203.0.113.5")) == [
        "c=IN IP4 203.0.113.5",
        "a=candidate:1 1 udp 2130706431 203.0.113.5 50007 typ host",
    ]


def test_an_ipv6_address_replaces_ipv6_addresses() -> None:
    assert changes(SDP, advertise(SDP, "2001:db8:1::5")) == [
        "a=candidate:2 1 udp 2130706431 2001:db8:1::5 50008 typ host"
    ]


def test_relayed_candidates_hide_the_address_behind_the_relay() -> None:
    assert changes(SDP, hide_related_addresses(SDP)) == [
        "a=candidate:3 1 udp 1694498815 198.51.100.1 50007 typ srflx raddr 0.0.0.0 rport 9",
        "a=candidate:4 1 udp 16777215 198.51.100.2 40000 typ relay raddr 0.0.0.0 rport 9",
    ]


@pytest.mark.parametrize("address", ["203.0.113.5", "2001:db8::1", "127.0.0.1"])
def test_a_public_address_is_accepted(address: str) -> None:
    check_public_address(address)


@pytest.mark.parametrize("address", ["", "example.org", "203.0.113.5:80", "0.0.0.0", "::", "224.0.0.1"])
def test_an_unusable_public_address_is_refused(address: str) -> None:
    with pytest.raises(ValueError, match="public_address must be") as error:
        check_public_address(address)
    assert repr(address) in str(error.value)


def test_credentials_expire_and_are_signed() -> None:
    username, password = TurnSecret("north", lifetime_s=600).credentials("ann", now_s=1_000.9)
    assert username == "1600:ann"
    assert base64.b64decode(password) == hmac.digest(b"north", b"1600:ann", hashlib.sha1)


def test_credentials_depend_on_user_time_and_secret() -> None:
    secret = TurnSecret("north")
    made = {secret.credentials("ann", 0), secret.credentials("bob", 0), secret.credentials("ann", 1)}
    made.add(TurnSecret("south").credentials("ann", 0))
    assert len({password for _, password in made}) == 4


def test_the_secret_is_not_in_the_repr() -> None:
    assert "north" not in repr(TurnSecret("north"))


def test_an_empty_secret_is_refused() -> None:
    with pytest.raises(ValueError, match="turn_secret must be the secret"):
        TurnSecret("")
