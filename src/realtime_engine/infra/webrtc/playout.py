"""The RTP header extension with which a sender bounds how long a browser holds frames back before it shows them.

Format and meaning: http://www.webrtc.org/experiments/rtp-hdrext/playout-delay. Without it, Chromium smooths jitter
with a delay of its own, which costs an interactive picture some 10 to 20 ms.
"""

from __future__ import annotations

from aiortc.sdp import MediaDescription

URI = "http://www.webrtc.org/experiments/rtp-hdrext/playout-delay"
IMMEDIATELY = bytes(3)  # 12 bits of least and 12 bits of most delay, both in units of 10 ms

_ONE_BYTE_IDS = range(1, 15)  # RFC 8285: other numbers need headers that a viewer may not read


def find_extension(video: MediaDescription) -> int | None:
    """The number that the section gives the extension; ``None`` if it lacks it."""
    for extension in video.rtp.headerExtensions:
        if extension.uri == URI and extension.id in _ONE_BYTE_IDS:
            return int(extension.id)
    return None
