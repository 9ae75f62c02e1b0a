"""The RTP header extension in which browsers say which colours their VP8 means: a canvas comes as full-range BT.709.

Format and meaning: http://www.webrtc.org/experiments/rtp-hdrext/color-space. The bytes are primaries, transfer, matrix
(numbers of ITU-T H.273), and range in the upper half of the fourth. It comes with the last packet of a keyframe.
"""

from __future__ import annotations

from typing import NamedTuple

import av
from aiortc.sdp import MediaDescription
from av.video.reformatter import ColorRange

URI = "http://www.webrtc.org/experiments/rtp-hdrext/color-space"

_UNSPECIFIED = 2
_RANGES = {1: ColorRange.MPEG, 2: ColorRange.JPEG}


class Colours(NamedTuple):
    """Matrix coefficients by H.273, and the range of values."""

    matrix: int
    range: ColorRange


def find_extension(video: MediaDescription) -> int | None:
    """The number that the section gives the extension; ``None`` if it lacks it."""
    return next((int(each.id) for each in video.rtp.headerExtensions if each.uri == URI), None)


def read_colours(value: bytes) -> Colours | None:
    """What the extension says; ``None`` when it says nothing that can be used."""
    known = _RANGES.get(value[3] >> 4 & 3) if len(value) >= 4 else None
    return None if known is None or value[2] == _UNSPECIFIED else Colours(value[2], known)


def label(image: av.VideoFrame, colours: Colours | None) -> None:
    """Let a frame whose stream does not say it mean these colours."""
    if colours is not None and image.colorspace == _UNSPECIFIED:
        image.colorspace, image.color_range = colours
