"""A viewer's SDP offer: what it wants, and what is wrong with it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import av
from aiortc.sdp import MediaDescription, SessionDescription
from av.video.reformatter import ColorRange

from ..encoding.base import Codec
from .errors import BadCandidateError, BadOfferError
from .ice import keep_usable_candidates

PLAYOUT_DELAY_URI = "http://www.webrtc.org/experiments/rtp-hdrext/playout-delay"
IMMEDIATELY = bytes(3)  # 12 bits of least and 12 bits of most delay, both in units of 10 ms

_ONE_BYTE_IDS = range(1, 15)  # RFC 8285: other numbers need headers that a viewer may not read


def find_playout_extension(video: MediaDescription) -> int | None:
    """The number that the section gives the extension; ``None`` if it lacks it."""
    for extension in video.rtp.headerExtensions:
        if extension.uri == PLAYOUT_DELAY_URI and extension.id in _ONE_BYTE_IDS:
            return int(extension.id)
    return None


_MAX_CHARACTERS = 32_768
_MAX_LINES = 1024
_BASELINE = "42"  # profile_idc, the first byte of H.264's profile-level-id
_BASELINE_DEFAULT = "42e01f"  # what an offer without a profile-level-id means


@dataclass(frozen=True)
class Offer:
    """An offer that can be answered.

    Attributes:
        sdp: the offer without candidates that cannot help.
        codecs: those of this package that the viewer decodes.
        mid: the media section whose transport carries everything.
        ufrag: the viewer's ICE user name.
        playout_extension: its number for the playout delay, ``None`` if it knows none.
    """

    sdp: str
    codecs: frozenset[Codec]
    mid: str
    ufrag: str
    playout_extension: int | None

    def choose(self, preference: Sequence[Codec]) -> Codec:
        """The first codec of ``preference`` that the viewer decodes. Errors: ``BadOfferError``."""
        for codec in preference:
            if codec in self.codecs:
                return codec
        raise BadOfferError(f"the offer decodes {_names(self.codecs)}; this server is set to {_names(preference)}")


def parse_offer(text: str) -> Offer:
    """Read and check an SDP offer. Errors: ``BadOfferError`` says what is wrong and what was expected."""
    sdp, session = read_session(text)
    video = _video(session)
    head = check_transports(session)
    ufrag = str(head.ice and head.ice.usernameFragment)
    return Offer(sdp, _codecs(video), head.rtp.muxId, ufrag, find_playout_extension(video))


def read_session(text: str) -> tuple[str, SessionDescription]:
    """An offer without candidates that cannot help, as text and parsed. Errors: ``BadOfferError``."""
    if len(text) > _MAX_CHARACTERS:
        raise BadOfferError(f"the SDP offer has {len(text)} characters; at most {_MAX_CHARACTERS} are read")
    if text.count("\n") > _MAX_LINES:
        raise BadOfferError(f"the SDP offer has {text.count(chr(10))} lines; at most {_MAX_LINES} are read")
    if not text.lstrip().startswith("v=0"):
        raise BadOfferError(f"expected an SDP offer, which begins with 'v=0', got {text[:40]!r}")
    try:
        sdp = keep_usable_candidates(text)
        return sdp, SessionDescription.parse(sdp)
    except BadCandidateError as error:
        raise BadOfferError(f"the SDP offer is malformed: {error}") from error
    except Exception as error:  # the parser stops at malformed text with whatever its code ran into
        raise BadOfferError(f"the SDP offer is malformed ({type(error).__name__}: {error})") from error


def check_transports(session: SessionDescription) -> MediaDescription:
    """The section whose transport carries all of them. Errors: ``BadOfferError``."""
    for media in session.media:
        _check_transport(media)
    return _bundle_head(session)


def _video(session: SessionDescription) -> MediaDescription:
    sections = [media for media in session.media if media.kind == "video"]
    if len(sections) != 1:
        raise BadOfferError(
            f"expected exactly one m=video section, got {len(sections)}: "
            "add one video transceiver with direction 'recvonly'"
        )
    if sections[0].direction not in ("recvonly", "sendrecv"):
        raise BadOfferError(
            f"the m=video section is {sections[0].direction!r}; a viewer offers 'recvonly' (or 'sendrecv')"
        )
    return sections[0]


def _check_transport(media: MediaDescription) -> None:
    if media.kind not in ("audio", "video", "application"):
        raise BadOfferError(f"expected m=video, m=audio or m=application sections, got m={media.kind}")
    if media.ice is None or not media.ice.usernameFragment or not media.ice.password:
        raise BadOfferError(f"the m={media.kind} section has no a=ice-ufrag or no a=ice-pwd")
    if media.dtls is None or not media.dtls.fingerprints:
        raise BadOfferError(f"the m={media.kind} section has no a=fingerprint")
    if media.kind != "application" and not media.rtcp_mux:
        raise BadOfferError(f"the m={media.kind} section has no a=rtcp-mux")
    if not media.rtp.muxId:
        raise BadOfferError(f"the m={media.kind} section has no a=mid")


def _bundle_head(session: SessionDescription) -> MediaDescription:
    bundle = next((group for group in session.group if group.semantic == "BUNDLE"), None)
    mids = [media.rtp.muxId for media in session.media]
    if bundle is None or sorted(map(str, bundle.items)) != sorted(mids):
        raise BadOfferError(f"expected a=group:BUNDLE with every section ({' '.join(mids)}), got {bundle or 'none'}")
    return session.media[mids.index(str(bundle.items[0]))]


def _codecs(video: MediaDescription) -> frozenset[Codec]:
    found = set()
    for codec in video.rtp.codecs:
        name = codec.name.upper()
        if name == "VP8":
            found.add(Codec.VP8)
        elif name == "H264" and _is_baseline(codec.parameters):
            found.add(Codec.H264)
    if not found:
        offered = ", ".join(sorted({codec.name for codec in video.rtp.codecs})) or "no codec"
        raise BadOfferError(
            f"the m=video section offers {offered}; expected VP8 or H264 (baseline, packetization-mode=1)"
        )
    return frozenset(found)


def _is_baseline(parameters: dict[str, int | str | None]) -> bool:
    mode = str(parameters.get("packetization-mode", "0"))
    profile = str(parameters.get("profile-level-id", _BASELINE_DEFAULT))
    return mode == "1" and profile.startswith(_BASELINE)


def _names(codecs: Sequence[Codec] | frozenset[Codec]) -> str:
    return ", ".join(sorted(codec.value for codec in codecs)) or "none"


COLOR_SPACE_URI = "http://www.webrtc.org/experiments/rtp-hdrext/color-space"

_UNSPECIFIED = 2
_RANGES = {1: ColorRange.MPEG, 2: ColorRange.JPEG}


class Colours(NamedTuple):
    """Matrix coefficients by H.273, and the range of values."""

    matrix: int
    range: ColorRange


def find_color_extension(video: MediaDescription) -> int | None:
    """The number that the section gives the extension; ``None`` if it lacks it."""
    return next((int(each.id) for each in video.rtp.headerExtensions if each.uri == COLOR_SPACE_URI), None)


def read_colours(value: bytes) -> Colours | None:
    """What the extension says; ``None`` when it says nothing that can be used."""
    known = _RANGES.get(value[3] >> 4 & 3) if len(value) >= 4 else None
    return None if known is None or value[2] == _UNSPECIFIED else Colours(value[2], known)


def label(image: av.VideoFrame, colours: Colours | None) -> None:
    """Let a frame whose stream does not say it mean these colours."""
    if colours is not None and image.colorspace == _UNSPECIFIED:
        image.colorspace, image.color_range = colours


_NUMBERS = range(96, 128)  # payload types that aiortc takes over from an offer
_ANY_H264 = "level-asymmetry-allowed=1;packetization-mode=1;profile-level-id=42e01f"
_LINE_OF_NUMBER = re.compile(r"a=(?:rtpmap|fmtp|rtcp-fb):(\d+) ")


@dataclass(frozen=True)
class PublishOffer:
    """An offer to send video that can be answered.

    aiortc knows two of H264's profiles, while its decoder decodes all of them: it is told of one of the two, and the
    publisher is answered with its own.

    Attributes:
        sdp: the offer for aiortc.
        mid: the media section whose transport carries everything.
        ufrag: the publisher's ICE user name.
        colour_extension: its number for the colour space, ``None`` if it knows none.
        profiles: payload type of an H264 format -> its parameters as they were offered, ``None`` where there were none.
    """

    sdp: str
    mid: str
    ufrag: str
    colour_extension: int | None = None
    profiles: Mapping[int, str | None] = field(default_factory=dict)

    def answer(self, sdp: str) -> str:
        """The answer for the publisher, made of aiortc's."""
        lines = []
        for line in sdp.splitlines():
            number = _number_of(line)
            if line.startswith("a=fmtp:") and number is not None and number in self.profiles:
                offered = self.profiles[number]
                if offered is None:
                    continue
                line = f"a=fmtp:{number} {offered}"
            lines.append(line)
        return "\r\n".join(lines) + "\r\n"


def parse_publish_offer(text: str) -> PublishOffer:
    """Read and check an offer to send video.

    One video section is sent; audio may be offered beside it, and is answered as inactive. Everything that cannot be
    taken otherwise refuses the whole offer, as RFC 9725 wants it, so that nobody believes to be seen who is not.

    Errors: ``BadOfferError`` says what is wrong and what was expected.
    """
    sdp, session = read_session(text)
    video = _publication_video(session)
    head = check_transports(session)
    _check_codecs(video)
    foreign = {number for number in _numbers(video) if number not in _NUMBERS}
    profiles = _profiles(sdp, video)
    ufrag = str(head.ice and head.ice.usernameFragment)
    return PublishOffer(
        _rewritten(sdp, foreign, profiles), head.rtp.muxId, ufrag, find_color_extension(video), profiles
    )


def _publication_video(session: SessionDescription) -> MediaDescription:
    sections = [media for media in session.media if media.kind == "video"]
    if len(sections) != 1:
        raise BadOfferError(f"expected exactly one m=video section, got {len(sections)}")
    if sections[0].direction not in ("sendonly", "sendrecv"):
        raise BadOfferError(
            f"the m=video section is {sections[0].direction!r}; a publisher offers 'sendonly' (or 'sendrecv')"
        )
    return sections[0]


def _numbers(video: MediaDescription, *names: str) -> list[int]:
    """Payload types of the formats with these names, of all without any."""
    codecs = video.rtp.codecs
    return [int(codec.payloadType or 0) for codec in codecs if not names or codec.name.upper() in names]


def _check_codecs(video: MediaDescription) -> None:
    if any(number in _NUMBERS for number in _numbers(video, "VP8", "H264")):
        return
    offered = ", ".join(sorted({codec.name for codec in video.rtp.codecs})) or "no codec"
    raise BadOfferError(f"the m=video section offers {offered}; expected VP8 or H264 with a payload type of 96 to 127")


def _profiles(sdp: str, video: MediaDescription) -> dict[int, str | None]:
    profiles: dict[int, str | None] = {number: None for number in _numbers(video, "H264") if number in _NUMBERS}
    for line in sdp.splitlines():
        if line.startswith("a=fmtp:") and (number := _number_of(line)) in profiles:
            profiles[number] = line.partition(" ")[2]
    return profiles


def _rewritten(sdp: str, foreign: set[int], profiles: Mapping[int, str | None]) -> str:
    """The offer without formats that are numbered out of aiortc's range, and with a profile that it knows."""
    lines, is_video = [], False
    for line in sdp.splitlines():
        if line.startswith("m="):
            is_video = line.startswith("m=video")
            line = _without(line, foreign) if is_video else line
        number = _number_of(line)
        if not is_video or number is None:
            lines.append(line)
        elif number not in foreign and not (number in profiles and line.startswith("a=fmtp:")):
            lines.append(line)
            if number in profiles and line.startswith("a=rtpmap:"):
                lines.append(f"a=fmtp:{number} {_ANY_H264}")
    return "\r\n".join(lines) + "\r\n"


def _without(media_line: str, foreign: set[int]) -> str:
    kind, port, profile, *numbers = media_line.split()
    return " ".join([kind, port, profile, *(number for number in numbers if int(number) not in foreign)])


def _number_of(line: str) -> int | None:
    found = _LINE_OF_NUMBER.match(line)
    return int(found[1]) if found else None
