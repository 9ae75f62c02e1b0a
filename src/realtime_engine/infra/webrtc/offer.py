"""A viewer's SDP offer: what it wants, and what is wrong with it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from aiortc.sdp import MediaDescription, SessionDescription

from .codecs import Codec
from .errors import BadCandidateError, BadOfferError
from .ice import keep_usable_candidates
from .playout import find_extension

_MOST_CHARACTERS = 32_768
_MOST_LINES = 1024
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
    return Offer(sdp, _codecs(video), head.rtp.muxId, ufrag, find_extension(video))


def read_session(text: str) -> tuple[str, SessionDescription]:
    """An offer without candidates that cannot help, as text and parsed. Errors: ``BadOfferError``."""
    if len(text) > _MOST_CHARACTERS:
        raise BadOfferError(f"the SDP offer has {len(text)} characters; at most {_MOST_CHARACTERS} are read")
    if text.count("\n") > _MOST_LINES:
        raise BadOfferError(f"the SDP offer has {text.count(chr(10))} lines; at most {_MOST_LINES} are read")
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
