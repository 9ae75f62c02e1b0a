"""A publisher's SDP offer (WHIP, RFC 9725): what it sends, and what aiortc has to be told and not told of it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from aiortc.sdp import MediaDescription, SessionDescription

from .colours import find_extension
from .errors import BadOfferError
from .offer import check_transports, read_session

_NUMBERS = range(96, 128)  # payload types that aiortc takes over from an offer
_ANY_H264 = "level-asymmetry-allowed=1;packetization-mode=1;profile-level-id=42e01f"
_LINE_OF_NUMBER = re.compile(r"a=(?:rtpmap|fmtp|rtcp-fb):(\d+) ")


@dataclass(frozen=True)
class Publication:
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


def parse_publication(text: str) -> Publication:
    """Read and check an offer to send video.

    One video section is sent; audio may be offered beside it, and is answered as inactive. Everything that cannot be
    taken otherwise refuses the whole offer, as RFC 9725 wants it, so that nobody believes to be seen who is not.

    Errors: ``BadOfferError`` says what is wrong and what was expected.
    """
    sdp, session = read_session(text)
    video = _video(session)
    head = check_transports(session)
    _check_codecs(video)
    foreign = {number for number in _numbers(video) if number not in _NUMBERS}
    profiles = _profiles(sdp, video)
    ufrag = str(head.ice and head.ice.usernameFragment)
    return Publication(_rewritten(sdp, foreign, profiles), head.rtp.muxId, ufrag, find_extension(video), profiles)


def _video(session: SessionDescription) -> MediaDescription:
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
