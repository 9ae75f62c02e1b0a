"""SDP offers of viewers (WHEP) and publishers (WHIP): parsing, validation, and the header extensions that they offer.

An offer that cannot be answered as a whole is refused (``BadOfferError``), as RFC 9725 requires; the text says what is
wrong and what was expected.
"""

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
NO_PLAYOUT_DELAY = bytes(3)  # 12 bits of minimum and 12 bits of maximum delay, in units of 10 ms
COLOR_SPACE_URI = "http://www.webrtc.org/experiments/rtp-hdrext/color-space"

_ONE_BYTE_IDS = range(1, 15)  # RFC 8285: other numbers need two-byte headers, which a viewer may not read
_MAX_CHARACTERS = 32_768
_MAX_LINES = 1024
_BASELINE = "42"  # profile_idc, the first byte of H.264's profile-level-id
_DEFAULT_PROFILE = "42e01f"  # of an H.264 format without a profile-level-id
_PAYLOAD_TYPES = range(96, 128)  # what aiortc accepts in an offer
_ANY_H264 = "level-asymmetry-allowed=1;packetization-mode=1;profile-level-id=42e01f"
_FORMAT_LINE = re.compile(r"a=(?:rtpmap|fmtp|rtcp-fb):(\d+) ")
_UNSPECIFIED = 2  # matrix coefficients by H.273
_RANGES = {1: ColorRange.MPEG, 2: ColorRange.JPEG}


@dataclass(frozen=True)
class Offer:
    """A valid offer to receive video.

    Attributes:
        sdp: the offer without unusable candidates.
        codecs: the codecs of this package that the viewer decodes.
        mid: the media section whose transport carries the bundle.
        ufrag: the viewer's ICE user name fragment.
        playout_extension: its number for the playout delay; ``None`` if it does not support that.
    """

    sdp: str
    codecs: frozenset[Codec]
    mid: str
    ufrag: str
    playout_extension: int | None

    def choose_codec(self, preference: Sequence[Codec]) -> Codec:
        """The first codec of ``preference`` that the viewer decodes.

        Raises:
            BadOfferError: it decodes none of them.
        """
        for codec in preference:
            if codec in self.codecs:
                return codec
        raise BadOfferError(f"the offer decodes {_names(self.codecs)}; this server is set to {_names(preference)}")


@dataclass(frozen=True)
class PublishOffer:
    """A valid offer to send video.

    aiortc negotiates two profiles of H.264 although its decoder supports all. It is given one of the two in place of
    the offered profile, and :meth:`answer` restores what the publisher offered.

    Attributes:
        sdp: the offer for aiortc.
        mid: the media section whose transport carries the bundle.
        ufrag: the publisher's ICE user name fragment.
        color_extension: its number for the color space; ``None`` if it does not support that.
        profiles: payload type of an H.264 format -> its offered parameters, ``None`` if there were none.
    """

    sdp: str
    mid: str
    ufrag: str
    color_extension: int | None = None
    profiles: Mapping[int, str | None] = field(default_factory=dict)

    def answer(self, sdp: str) -> str:
        """The answer for the publisher, made from aiortc's."""
        lines = []
        for line in sdp.splitlines():
            number = _payload_type(line)
            if line.startswith("a=fmtp:") and number is not None and number in self.profiles:
                offered = self.profiles[number]
                if offered is None:
                    continue
                line = f"a=fmtp:{number} {offered}"
            lines.append(line)
        return "\r\n".join(lines) + "\r\n"


class ColorSpace(NamedTuple):
    """Matrix coefficients by H.273, and the range of values."""

    matrix: int
    range: ColorRange


def parse_offer(text: str) -> Offer:
    """Read and validate an offer to receive video.

    Raises:
        BadOfferError: it cannot be answered.
    """
    sdp, session = read_session(text)
    hint = ": add one video transceiver with direction 'recvonly'"
    video = _video_section(session, "recvonly", role="a viewer", hint=hint)
    head = check_transports(session)
    playout_extension = find_extension(video, PLAYOUT_DELAY_URI, _ONE_BYTE_IDS)
    return Offer(sdp, _codecs(video), head.rtp.muxId, _ufrag(head), playout_extension)


def parse_publish_offer(text: str) -> PublishOffer:
    """Read and validate an offer to send video.

    It has one video section; audio may be offered beside it, and is answered as inactive.

    Raises:
        BadOfferError: it cannot be answered.
    """
    sdp, session = read_session(text)
    video = _video_section(session, "sendonly", role="a publisher")
    head = check_transports(session)
    _check_published_codecs(video)
    foreign = {number for number in _payload_types(video) if number not in _PAYLOAD_TYPES}
    profiles = _profiles(sdp, video)
    return PublishOffer(
        _rewritten(sdp, foreign, profiles),
        head.rtp.muxId,
        _ufrag(head),
        find_extension(video, COLOR_SPACE_URI),
        profiles,
    )


def read_session(text: str) -> tuple[str, SessionDescription]:
    """Parse an offer; returns it without unusable candidates, as text and parsed.

    Raises:
        BadOfferError: it is too long or malformed.
    """
    if len(text) > _MAX_CHARACTERS:
        raise BadOfferError(f"the SDP offer has {len(text)} characters; at most {_MAX_CHARACTERS} are accepted")
    if text.count("\n") > _MAX_LINES:
        raise BadOfferError(f"the SDP offer has {text.count(chr(10))} lines; at most {_MAX_LINES} are accepted")
    if not text.lstrip().startswith("v=0"):
        raise BadOfferError(f"expected an SDP offer, which begins with 'v=0', got {text[:40]!r}")
    try:
        sdp = keep_usable_candidates(text)
        return sdp, SessionDescription.parse(sdp)
    except BadCandidateError as error:
        raise BadOfferError(f"the SDP offer is malformed: {error}") from error
    except Exception as error:  # the parser does not validate: malformed text raises anything
        raise BadOfferError(f"the SDP offer is malformed ({type(error).__name__}: {error})") from error


def check_transports(session: SessionDescription) -> MediaDescription:
    """Validate the transport of each section; returns the section whose transport carries the bundle.

    Raises:
        BadOfferError: a section lacks an attribute, or is not bundled.
    """
    for media in session.media:
        _check_transport(media)
    return _bundle_head(session)


def find_extension(video: MediaDescription, uri: str, ids: range | None = None) -> int | None:
    """The number of the header extension ``uri`` in the section; ``None`` if it has none, or none among ``ids``."""
    for extension in video.rtp.headerExtensions:
        if extension.uri == uri and (ids is None or extension.id in ids):
            return int(extension.id)
    return None


def parse_color_space(value: bytes) -> ColorSpace | None:
    """Read the content of the color space extension; ``None`` if it specifies no range or matrix."""
    known = _RANGES.get(value[3] >> 4 & 3) if len(value) >= 4 else None
    return None if known is None or value[2] == _UNSPECIFIED else ColorSpace(value[2], known)


def apply_color_space(image: av.VideoFrame, color_space: ColorSpace | None) -> None:
    """Set the color space of a frame whose stream does not specify one."""
    if color_space is not None and image.colorspace == _UNSPECIFIED:
        image.colorspace, image.color_range = color_space


def _video_section(session: SessionDescription, direction: str, *, role: str, hint: str = "") -> MediaDescription:
    sections = [media for media in session.media if media.kind == "video"]
    if len(sections) != 1:
        raise BadOfferError(f"expected exactly one m=video section, got {len(sections)}{hint}")
    if sections[0].direction not in (direction, "sendrecv"):
        offered = sections[0].direction
        raise BadOfferError(f"the m=video section is {offered!r}; {role} offers {direction!r} (or 'sendrecv')")
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


def _ufrag(head: MediaDescription) -> str:
    return str(head.ice and head.ice.usernameFragment)


def _codecs(video: MediaDescription) -> frozenset[Codec]:
    found = set()
    for codec in video.rtp.codecs:
        name = codec.name.upper()
        if name == "VP8":
            found.add(Codec.VP8)
        elif name == "H264" and _is_baseline(codec.parameters):
            found.add(Codec.H264)
    if not found:
        raise BadOfferError(
            f"the m=video section offers {_offered(video)}; expected VP8 or H264 (baseline, packetization-mode=1)"
        )
    return frozenset(found)


def _is_baseline(parameters: dict[str, int | str | None]) -> bool:
    mode = str(parameters.get("packetization-mode", "0"))
    profile = str(parameters.get("profile-level-id", _DEFAULT_PROFILE))
    return mode == "1" and profile.startswith(_BASELINE)


def _check_published_codecs(video: MediaDescription) -> None:
    if not any(number in _PAYLOAD_TYPES for number in _payload_types(video, "VP8", "H264")):
        raise BadOfferError(
            f"the m=video section offers {_offered(video)}; expected VP8 or H264 with a payload type of 96 to 127"
        )


def _offered(video: MediaDescription) -> str:
    return ", ".join(sorted({codec.name for codec in video.rtp.codecs})) or "no codec"


def _names(codecs: Sequence[Codec] | frozenset[Codec]) -> str:
    return ", ".join(sorted(codec.value for codec in codecs)) or "none"


def _payload_types(video: MediaDescription, *names: str) -> list[int]:
    """Payload types of the formats with these names; of all formats without names."""
    codecs = video.rtp.codecs
    return [int(codec.payloadType or 0) for codec in codecs if not names or codec.name.upper() in names]


def _profiles(sdp: str, video: MediaDescription) -> dict[int, str | None]:
    profiles: dict[int, str | None] = {}
    profiles.update(dict.fromkeys(number for number in _payload_types(video, "H264") if number in _PAYLOAD_TYPES))
    for line in sdp.splitlines():
        if line.startswith("a=fmtp:") and (number := _payload_type(line)) in profiles:
            profiles[number] = line.partition(" ")[2]
    return profiles


def _rewritten(sdp: str, foreign: set[int], profiles: Mapping[int, str | None]) -> str:
    """The offer without formats numbered outside of aiortc's range, and with an H.264 profile that it negotiates."""
    lines, is_video = [], False
    for line in sdp.splitlines():
        if line.startswith("m="):
            is_video = line.startswith("m=video")
            line = _without_formats(line, foreign) if is_video else line
        number = _payload_type(line)
        if not is_video or number is None:
            lines.append(line)
        elif number not in foreign and not (number in profiles and line.startswith("a=fmtp:")):
            lines.append(line)
            if number in profiles and line.startswith("a=rtpmap:"):
                lines.append(f"a=fmtp:{number} {_ANY_H264}")
    return "\r\n".join(lines) + "\r\n"


def _without_formats(media_line: str, foreign: set[int]) -> str:
    kind, port, profile, *numbers = media_line.split()
    return " ".join([kind, port, profile, *(number for number in numbers if int(number) not in foreign)])


def _payload_type(line: str) -> int | None:
    found = _FORMAT_LINE.match(line)
    return int(found[1]) if found else None
