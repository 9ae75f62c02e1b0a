from __future__ import annotations

from collections.abc import Callable

import pytest

from realtime_engine.infra.webrtc.codecs import Codec
from realtime_engine.infra.webrtc.errors import BadOfferError
from realtime_engine.infra.webrtc.offer import parse_offer

FINGERPRINT = "sha-256 " + ":".join(["AB"] * 32)
VIDEO = f"""m=video 9 UDP/TLS/RTP/SAVPF 96 97 98 99
c=IN IP4 0.0.0.0
a=rtcp:9 IN IP4 0.0.0.0
a=candidate:1 1 udp 2122260223 f00-ba2.local 50000 typ host
a=ice-ufrag:Uf/+
a=ice-pwd:abcdefghijklmnopqrstuvwx
a=ice-options:trickle
a=fingerprint:{FINGERPRINT}
a=setup:actpass
a=mid:0
a=recvonly
a=rtcp-mux
a=rtpmap:96 VP8/90000
a=rtcp-fb:96 nack pli
a=rtpmap:97 rtx/90000
a=fmtp:97 apt=96
a=rtpmap:98 H264/90000
a=fmtp:98 level-asymmetry-allowed=1;packetization-mode=1;profile-level-id=42e01f
a=rtpmap:99 AV1/90000
"""
DATA = f"""m=application 9 UDP/DTLS/SCTP webrtc-datachannel
c=IN IP4 0.0.0.0
a=ice-ufrag:Uf/+
a=ice-pwd:abcdefghijklmnopqrstuvwx
a=fingerprint:{FINGERPRINT}
a=setup:actpass
a=mid:1
a=sctp-port:5000
"""
HEAD = """v=0
o=- 1 2 IN IP4 127.0.0.1
s=-
t=0 0
a=group:BUNDLE 0 1
"""
OFFER = HEAD + VIDEO + DATA


def test_a_browsers_offer_is_understood() -> None:
    offer = parse_offer(OFFER)
    assert offer.codecs == {Codec.H264, Codec.VP8}
    assert (offer.mid, offer.ufrag) == ("0", "Uf/+")
    assert ".local" not in offer.sdp and "m=application" in offer.sdp


@pytest.mark.parametrize("line, number", [("7", 7), ("7/sendrecv", 7), ("14", 14), ("15", None), ("0", None)])
def test_the_number_of_the_playout_delay_is_read(line: str, number: int | None) -> None:
    extension = f"a=extmap:{line} http://www.webrtc.org/experiments/rtp-hdrext/playout-delay\n"
    assert parse_offer(OFFER).playout_extension is None
    assert parse_offer(HEAD + VIDEO + extension + DATA).playout_extension == number


@pytest.mark.parametrize("more", ["a=x\n" * 1024, "a=" + "x" * 32_768])
def test_a_huge_offer_is_refused(more: str) -> None:
    with pytest.raises(BadOfferError, match="at most"):
        parse_offer(OFFER + more)


def test_the_servers_preference_decides_among_what_is_offered() -> None:
    offer = parse_offer(OFFER)
    assert offer.choose([Codec.H264, Codec.VP8]) is Codec.H264
    assert offer.choose([Codec.VP8, Codec.H264]) is Codec.VP8
    only_vp8 = parse_offer(OFFER.replace("packetization-mode=1", "packetization-mode=0"))
    assert only_vp8.choose([Codec.H264, Codec.VP8]) is Codec.VP8
    with pytest.raises(BadOfferError, match=r"decodes VP8; this server is set to H264"):
        only_vp8.choose([Codec.H264])


def test_h264_of_another_profile_does_not_count() -> None:
    assert parse_offer(OFFER.replace("42e01f", "64001f")).codecs == {Codec.VP8}


def without(line: str) -> Callable[[str], str]:
    return lambda offer: "\n".join(kept for kept in offer.split("\n") if not kept.startswith(line))


WRONG: list[tuple[str, Callable[[str], str], str]] = [
    ("empty", lambda o: "", "begins with 'v=0'"),
    ("JSON", lambda o: '{"sdp": "v=0"}', "begins with 'v=0'"),
    ("huge", lambda o: o + "a=x:y\n" * 20_000, "at most 32768"),
    ("cut off in a line", lambda o: o[: o.index("UDP/TLS")], "malformed"),
    ("bad numbers", lambda o: o.replace("UDP/TLS/RTP/SAVPF 96", "UDP/TLS/RTP/SAVPF x"), "malformed"),
    ("bad candidate", lambda o: o.replace("typ host", "typo"), "candidate"),
    (
        "many candidates",
        lambda o: o.replace("a=mid:0", "a=candidate:1 1 udp 1 192.0.2.1 1 typ host\n" * 64),
        "at most 64",
    ),
    ("bad setup", lambda o: o.replace("actpass", "maybe"), "malformed"),
    ("no video", lambda o: (HEAD + DATA).replace("BUNDLE 0 1", "BUNDLE 1"), "exactly one m=video section, got 0"),
    ("two videos", lambda o: o + VIDEO.replace("mid:0", "mid:2"), "exactly one m=video section, got 2"),
    ("sends only", lambda o: o.replace("recvonly", "sendonly"), "'sendonly'"),
    ("no ufrag", without("a=ice-ufrag"), "a=ice-ufrag"),
    ("no fingerprint", without("a=fingerprint"), "a=fingerprint"),
    ("no rtcp-mux", without("a=rtcp-mux"), "a=rtcp-mux"),
    ("no bundle", without("a=group"), "BUNDLE"),
    ("foreign codecs", lambda o: o.replace("VP8/", "VP9/").replace("H264/", "H265/"), "offers AV1, H265, VP9"),
    ("other media", lambda o: o + DATA.replace("m=application", "m=text"), "m=text"),
]


@pytest.mark.parametrize(("change", "complaint"), [w[1:] for w in WRONG], ids=[w[0] for w in WRONG])
def test_what_is_wrong_with_an_offer_is_named(change: Callable[[str], str], complaint: str) -> None:
    with pytest.raises(BadOfferError) as error:
        parse_offer(change(OFFER))
    assert complaint in str(error.value)


def test_every_cut_of_an_offer_is_answered_or_refused() -> None:
    for end in range(0, len(OFFER), 7):
        try:
            parse_offer(OFFER[:end])
        except BadOfferError:
            continue
