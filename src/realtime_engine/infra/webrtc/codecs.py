"""The supported codecs as aiortc's capabilities."""

from __future__ import annotations

from collections.abc import Sequence

from aiortc import RTCRtpCodecCapability, RTCRtpSender

from ..encoding.base import Codec

CONSTRAINED_BASELINE = "42e0"  # start of a profile-level-id (RFC 6184, section 8.1)
DEFAULT_CODECS = (Codec.H264, Codec.VP8)


def codec_capabilities(codecs: Sequence[Codec]) -> list[RTCRtpCodecCapability]:
    """``codecs`` in this order, then retransmission (RFC 4588), for ``setCodecPreferences``.

    Of the H.264 profiles, constrained baseline comes first: the encoders produce that.
    """
    known = sorted(RTCRtpSender.getCapabilities("video").codecs, key=_is_other_profile)
    names = [f"video/{codec.value}".lower() for codec in codecs] + ["video/rtx"]
    return [capability for name in names for capability in known if capability.mimeType.lower() == name]


def _is_other_profile(capability: RTCRtpCodecCapability) -> bool:
    profile = capability.parameters.get("profile-level-id")
    return profile is not None and not str(profile).lower().startswith(CONSTRAINED_BASELINE)
