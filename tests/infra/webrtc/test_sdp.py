from __future__ import annotations

from collections.abc import Callable

import av
import numpy as np
import pytest
from aiortc.sdp import SessionDescription
from av.video.reformatter import ColorRange

from realtime_engine.infra.color import to_rgb
from realtime_engine.infra.encoding.base import Codec
from realtime_engine.infra.webrtc.errors import BadOfferError
from realtime_engine.infra.webrtc.sdp import (
    COLOR_SPACE_URI,
    ColorSpace,
    apply_color_space,
    find_extension,
    parse_color_space,
    parse_offer,
    parse_publish_offer,
)

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


def test_an_offer_of_a_browser_is_parsed() -> None:
    offer = parse_offer(OFFER)
    assert offer.codecs == {Codec.H264, Codec.VP8}
    assert (offer.mid, offer.ufrag) == ("0", "Uf/+")
    assert ".local" not in offer.sdp and "m=application" in offer.sdp


@pytest.mark.parametrize("line, number", [("7", 7), ("7/sendrecv", 7), ("14", 14), ("15", None), ("0", None)])
def test_the_number_of_the_playout_delay_is_found(line: str, number: int | None) -> None:
    extension = f"a=extmap:{line} http://www.webrtc.org/experiments/rtp-hdrext/playout-delay\n"
    assert parse_offer(OFFER).playout_extension is None
    assert parse_offer(HEAD + VIDEO + extension + DATA).playout_extension == number


@pytest.mark.parametrize("more", ["a=x\n" * 1024, "a=" + "x" * 32_768])
def test_a_huge_offer_is_refused(more: str) -> None:
    with pytest.raises(BadOfferError, match="at most"):
        parse_offer(OFFER + more)


def test_the_servers_preference_decides_among_the_offered_codecs() -> None:
    offer = parse_offer(OFFER)
    assert offer.choose_codec([Codec.H264, Codec.VP8]) is Codec.H264
    assert offer.choose_codec([Codec.VP8, Codec.H264]) is Codec.VP8
    only_vp8 = parse_offer(OFFER.replace("packetization-mode=1", "packetization-mode=0"))
    assert only_vp8.choose_codec([Codec.H264, Codec.VP8]) is Codec.VP8
    with pytest.raises(BadOfferError, match=r"decodes VP8; this server is set to H264"):
        only_vp8.choose_codec([Codec.H264])


def test_h264_of_another_profile_is_not_offered_to_a_viewer() -> None:
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
def test_the_error_names_the_fault_of_an_offer(change: Callable[[str], str], complaint: str) -> None:
    with pytest.raises(BadOfferError) as error:
        parse_offer(change(OFFER))
    assert complaint in str(error.value)


def test_every_truncated_offer_is_parsed_or_refused() -> None:
    for end in range(0, len(OFFER), 7):
        try:
            parse_offer(OFFER[:end])
        except BadOfferError:
            continue


PUBLICATION_FINGERPRINT = ":".join(["AB"] * 32)
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
        f"a=fingerprint:sha-256 {PUBLICATION_FINGERPRINT}",
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


def test_an_offer_of_obs_is_parsed() -> None:
    audio = section("audio", "111", "0", "sendonly", *OPUS)
    video = section("video", "96", "1", "sendonly", *h264("profile-level-id=42e01f;packetization-mode=1"))
    publication = parse_publish_offer(offer(audio, video, bundle="0 1"))
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
def test_every_h264_profile_is_answered_with_itself(parameters: str) -> None:
    publication = parse_publish_offer(offer(section("video", "96", "0", "sendonly", *h264(parameters))))
    (offered,) = [line for line in publication.sdp.splitlines() if line.startswith("a=fmtp:96")]
    assert "42e01f" in offered, "which aiortc knows"
    answer = "\r\n".join(["m=video 9 UDP/TLS/RTP/SAVPF 96", "a=rtpmap:96 H264/90000", offered, "a=recvonly"])
    expected = [f"a=fmtp:96 {parameters}"] if parameters else []
    assert [line for line in publication.answer(answer).splitlines() if "fmtp" in line] == expected


def test_formats_outside_of_aiortcs_range_are_removed() -> None:
    lines = [*h264("packetization-mode=1", first=39), "a=rtpmap:97 VP8/90000", *h264(HIGH, first=98)]
    publication = parse_publish_offer(offer(section("video", "39 97 98", "0", "sendonly", *lines)))
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
def test_the_error_names_the_fault_of_a_publish_offer(sdp: str, text: str) -> None:
    with pytest.raises(BadOfferError, match=text):
        parse_publish_offer(sdp)


FULL_709 = ColorSpace(1, ColorRange.JPEG)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (bytes((1, 13, 1, 0x20)), FULL_709),
        (bytes((6, 6, 6, 0x1A)), ColorSpace(6, ColorRange.MPEG)),
        (bytes((1, 1, 1, 0x20)) + bytes(24), FULL_709),
        (bytes((2, 2, 2, 0x20)), None),
        (bytes((1, 1, 1, 0x00)), None),
        (bytes((1, 1, 1)), None),
        (b"", None),
    ],
)
def test_the_color_space_extension_is_parsed(value: bytes, expected: ColorSpace | None) -> None:
    assert parse_color_space(value) == expected


def unlabeled() -> av.VideoFrame:
    pixels = np.empty((16, 16, 3), np.uint8)
    pixels[...] = (250, 246, 236)
    meant = av.VideoFrame.from_ndarray(pixels, format="rgb24").reformat(format="yuvj420p", dst_colorspace="ITU709")
    return av.VideoFrame.from_ndarray(meant.to_ndarray(), format="yuv420p")


def test_the_color_space_applies_to_an_unlabeled_frame() -> None:
    wrong, right = unlabeled(), unlabeled()
    apply_color_space(wrong, None)
    apply_color_space(right, FULL_709)
    assert to_rgb(wrong, 16)[0, 0].min() > 250
    assert np.abs(to_rgb(right, 16)[0, 0].astype(int) - (250, 246, 236)).max() <= 2


def test_the_label_of_the_stream_takes_precedence() -> None:
    image = unlabeled()
    image.colorspace = 6
    apply_color_space(image, FULL_709)
    assert image.colorspace == 6 and image.color_range == ColorRange.UNSPECIFIED


@pytest.mark.parametrize(("line", "number"), [(f"a=extmap:8 {COLOR_SPACE_URI}\r\n", 8), ("", None)])
def test_the_number_of_the_color_space_is_found(line: str, number: int | None) -> None:
    text = f"v=0\r\no=- 1 1 IN IP4 0.0.0.0\r\ns=-\r\nt=0 0\r\nm=video 9 UDP/TLS/RTP/SAVPF 96\r\na=mid:0\r\n{line}"
    assert find_extension(SessionDescription.parse(text).media[0], COLOR_SPACE_URI) == number
