from __future__ import annotations

import pytest

from realtime_engine.infra.webrtc.advertising import advertise, check_public_address, hide_related_addresses

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


def test_the_public_address_takes_the_place_of_the_own_one_and_ports_stay() -> None:
    assert changes(SDP, advertise(SDP, "203.0.113.5")) == [
        "c=IN IP4 203.0.113.5",
        "a=candidate:1 1 udp 2130706431 203.0.113.5 50007 typ host",
    ]


def test_an_ipv6_address_stands_for_ipv6_addresses() -> None:
    assert changes(SDP, advertise(SDP, "2001:db8:1::5")) == [
        "a=candidate:2 1 udp 2130706431 2001:db8:1::5 50008 typ host"
    ]


def test_a_relay_does_not_tell_whom_it_stands_for() -> None:
    assert changes(SDP, hide_related_addresses(SDP)) == [
        "a=candidate:3 1 udp 1694498815 198.51.100.1 50007 typ srflx raddr 0.0.0.0 rport 9",
        "a=candidate:4 1 udp 16777215 198.51.100.2 40000 typ relay raddr 0.0.0.0 rport 9",
    ]


@pytest.mark.parametrize("address", ["203.0.113.5", "2001:db8::1", "127.0.0.1"])
def test_an_address_is_taken(address: str) -> None:
    check_public_address(address)


@pytest.mark.parametrize("address", ["", "example.org", "203.0.113.5:80", "0.0.0.0", "::", "224.0.0.1"])
def test_what_nobody_can_send_to_is_refused(address: str) -> None:
    with pytest.raises(ValueError, match="public_address must be") as error:
        check_public_address(address)
    assert repr(address) in str(error.value)
