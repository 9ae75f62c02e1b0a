from __future__ import annotations

import pytest
from aiortc.sdp import SessionDescription

from realtime_engine.infra.webrtc import BadOfferError
from realtime_engine.infra.webrtc.publication import parse_publication

FINGERPRINT = ":".join(["AB"] * 32)
OPUS = ["a=rtpmap:111 opus/48000/2", "a=fmtp:111 minptime=10;useinbandfec=1"]
HIGH = "profile-level-id=640c34;packetization-mode=1;level-asymmetry-allowed=1"  # level 5.2


def section(kind: str, numbers: str, mid: str, direction: str, *lines: str) -> list[str]:
    return [
        f"m={kind} 9 UDP/TLS/RTP/SAVPF {numbers}",
        "c=IN IP4 0.0.0.0",
        f"a=mid:{mid}",
        f"a={direction}",
        "a=ice-ufrag:abcd",
        "a=ice-pwd:0123456789abcdefghijkl",
        f"a=fingerprint:sha-256 {FINGERPRINT}",
        "a=setup:actpass",
        "a=rtcp-mux",
        *lines,
    ]


def offer(*sections: list[str], bundle: str = "0") -> str:
    head = ["v=0", "o=- 1 1 IN IP4 127.0.0.1", "s=-", "t=0 0", f"a=group:BUNDLE {bundle}"]
    return "\r\n".join([*head, *(line for lines in sections for line in lines)]) + "\r\n"


def h264(*parameters: str, first: int = 96) -> list[str]:
    lines = []
    for number, given in enumerate(parameters, first):
        lines += [f"a=rtpmap:{number} H264/90000", f"a=rtcp-fb:{number} nack pli"]
        lines += [f"a=fmtp:{number} {given}"] if given else []
    return lines


def numbers_in(sdp: str) -> list[int]:
    (video,) = [media for media in SessionDescription.parse(sdp).media if media.kind == "video"]
    return [codec.payloadType for codec in video.rtp.codecs]


def test_an_offer_as_obs_makes_it_is_taken() -> None:
    audio = section("audio", "111", "0", "sendonly", *OPUS)
    video = section("video", "96", "1", "sendonly", *h264("profile-level-id=42e01f;packetization-mode=1"))
    publication = parse_publication(offer(audio, video, bundle="0 1"))
    assert (publication.mid, publication.ufrag) == ("0", "abcd")
    assert OPUS[1] in publication.sdp, "only video is rewritten"


@pytest.mark.parametrize(
    "parameters",
    [
        "profile-level-id=42001f;packetization-mode=1",
        "profile-level-id=4d0032;packetization-mode=1",
        HIGH,
        "profile-level-id=f40034;packetization-mode=0",
        "packetization-mode=1",
        "",
    ],
)
def test_every_profile_of_h264_is_taken_and_answered_with_itself(parameters: str) -> None:
    publication = parse_publication(offer(section("video", "96", "0", "sendonly", *h264(parameters))))
    (told,) = [line for line in publication.sdp.splitlines() if line.startswith("a=fmtp:96")]
    assert "42e01f" in told, "which aiortc knows"
    answer = "\r\n".join(["m=video 9 UDP/TLS/RTP/SAVPF 96", "a=rtpmap:96 H264/90000", told, "a=recvonly"])
    expected = [f"a=fmtp:96 {parameters}"] if parameters else []
    assert [line for line in publication.answer(answer).splitlines() if "fmtp" in line] == expected


def test_formats_that_aiortc_would_misnumber_are_left_out() -> None:
    lines = [*h264("packetization-mode=1", first=39), "a=rtpmap:97 VP8/90000", *h264(HIGH, first=98)]
    publication = parse_publication(offer(section("video", "39 97 98", "0", "sendonly", *lines)))
    assert numbers_in(publication.sdp) == [97, 98]
    assert not [line for line in publication.sdp.splitlines() if ":39 " in line]


@pytest.mark.parametrize(
    ("sdp", "text"),
    [
        (offer(section("video", "96", "0", "recvonly", *h264(HIGH))), "a publisher offers 'sendonly'"),
        (offer(section("video", "96", "0", "sendonly", "a=rtpmap:96 AV1/90000")), "offers AV1; expected VP8 or H264"),
        (offer(section("video", "39", "0", "sendonly", *h264(HIGH, first=39))), "a payload type of 96 to 127"),
        (offer(section("audio", "111", "0", "sendonly", *OPUS)), "exactly one m=video section, got 0"),
        (
            offer(*(section("video", "96", mid, "sendonly", *h264(HIGH)) for mid in "01"), bundle="0 1"),
            "exactly one m=video section, got 2",
        ),
        (offer(section("video", "96", "0", "sendonly", *h264(HIGH)), bundle="7"), "expected a=group:BUNDLE"),
        ("v=0\r\nm=video\r\n", "malformed"),
        ("hello", "begins with 'v=0'"),
    ],
)
def test_what_cannot_be_taken_is_said(sdp: str, text: str) -> None:
    with pytest.raises(BadOfferError, match=text):
        parse_publication(sdp)
